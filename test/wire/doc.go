// SPDX-License-Identifier: Apache-2.0

// Package wire holds the test that our commands are those of rdma-core: it
// records what the C programs and ours give the kernel for the same operations,
// and compares field by field.
package wire
