// SPDX-License-Identifier: Apache-2.0

// Package interop tests the programs as a whole, against rdma-core's programs and against
// hostile peers.
package interop
