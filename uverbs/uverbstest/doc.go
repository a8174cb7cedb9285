// SPDX-License-Identifier: Apache-2.0

// Package uverbstest is a kernel with RDMA devices that exists in memory only,
// for tests on machines that have none: of this module and of programs that use
// it. Put a [Kernel] into a verbs.Host, and the devices open, register memory,
// and carry messages between queue pairs of the same Kernel.
//
// Its devices look like those of rdma_rxe: same commands, same rings. What the
// wire does is simple: a doorbell carries out what was posted before it returns,
// in order and without loss. Memory windows exist, but are not bound. The connection manager is not part of it: tests
// connect queue pairs by Modify, or have package cmtest, which adds one.
//
// It needs Linux, for memory that both sides map and for pipes on the poller.
package uverbstest
