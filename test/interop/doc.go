// SPDX-License-Identifier: Apache-2.0

// Package interop holds the tests of our programs as a whole: against rdma-core's,
// and against peers that mean no good.
package interop
