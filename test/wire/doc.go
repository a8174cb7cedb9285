// SPDX-License-Identifier: Apache-2.0

// Package wire tests that the commands of this project equal rdma-core's. It records the
// commands of the C programs and the Go programs for equal operations, and compares them field
// by field.
package wire
