// SPDX-License-Identifier: Apache-2.0

// Package erdma is the user-space part of erdma, the driver of Alibaba Cloud's Elastic RDMA adapter.
// Requests, receives and completions are in memory of this process, which the adapter reads and
// writes. A doorbell is a store of 8 bytes to a register. No system call is needed for posting,
// polling and arming.
//
// The kernel driver and liberdma of rdma-core define the layouts. There is no public manual of the
// adapter. The adapter connects RC queue pairs by the connection manager, with iWARP or, with newer
// drivers (Linux 6.12.118 and 7.3), with RoCE v2. It has no shared receive queues, memory windows and
// datagrams for programs, and its completion queues cannot be resized.
//
// All that the adapter writes is checked before it is used.
package erdma
