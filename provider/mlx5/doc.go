// SPDX-License-Identifier: Apache-2.0

// Package mlx5 is the user-space half of mlx5_ib, the driver of NVIDIA's ConnectX
// (rdma/mlx5-abi.h). Its queues are rings in memory of this process: the device
// itself reads work requests from them and writes completions to them, and a store
// to a register, which the kernel mapped, tells it that there is work. After set-up
// no system call is made.
//
// A work queue entry (WQE) of the send queue is a chain of segments of 16 bytes in
// basic blocks (WQEBB) of 64: first the control segment, with the operation, the
// index and the size; then, by transport and operation, whom it goes to; then the
// data, inline or by reference. Everything is big-endian. Two doorbell records in
// memory say how far the queues are filled; a register rings, either with the first
// 8 bytes of the last WQE or, if there is one WQE of at most 256 bytes, with all of
// it (BlueFlame), which saves the device the fetch.
//
// A completion queue entry (CQE) names its queue by a number that the program chose, the
// user index, and its request by the index of the WQE. Small data of a READ or a receive
// may lie in the CQE itself; who polls then copies it to the memory region, which must
// be one of this context. CQEs that were compressed are written out when they are found.
// Nothing in a CQE is trusted: one that makes no sense is counted, logged and skipped, and
// the QP that it names moves to the error state ([Driver.Strict] stops the CQ instead).
//
// The layouts are those of NVIDIA's "Adapters Programmer's Reference Manual" (PRM)
// and, byte for byte, those of libmlx5.
package mlx5
