// SPDX-License-Identifier: Apache-2.0

// Package uverbstest provides a kernel with RDMA devices that exists only in memory. Tests of
// this module and tests of programs that use it run on it on machines without RDMA devices. Put
// a [Kernel] into a verbs.Host. Its devices open, register memory, and carry messages between
// queue pairs of the same Kernel.
//
// The devices behave like devices of rdma_rxe, or with [NewSIW] of siw and with [NewERDMA] of erdma. They have the
// commands and the rings of these drivers. The network is simple. A doorbell executes the posted requests, in order and without
// loss, on rxe and siw before it returns. Memory windows exist, but cannot be bound. A Kernel has no connection manager.
// Tests connect queue pairs with Modify, or use package cmtest, which adds a connection
// manager.
//
// It needs Linux, for memory that both sides map and for pipes on the poller.
package uverbstest
