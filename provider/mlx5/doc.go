// SPDX-License-Identifier: Apache-2.0

// Package mlx5 is the user-space part of mlx5_ib, the driver of NVIDIA's ConnectX
// (rdma/mlx5-abi.h). Its queues are rings in memory of this process. The device itself reads work
// requests from them and writes completions to them. A store to a register, which the kernel
// mapped, notifies it of new work. After set-up no system call is made.
//
// A work queue entry (WQE) of the send queue is a chain of segments of 16 bytes in basic blocks
// (WQEBB) of 64. It begins with the control segment, which has the operation, the index and the
// size. Depending on transport and operation, the destination follows. The data is last, inline or
// by reference. All fields are big-endian. Two doorbell records in memory hold the fill levels of
// the queues. The store to the register normally has the first 8 bytes of the last WQE. If there is
// one WQE of at most 256 bytes, it has the whole WQE (BlueFlame), which saves the device the fetch.
//
// A completion queue entry (CQE) names its queue by a number that the program chose, the user
// index, and its request by the index of the WQE. Small data of a READ or a receive may be in the
// CQE itself. Then the poll copies it to the memory region, which must belong to this context.
// Compressed CQEs are expanded when they are found. The contents of a CQE are not trusted. An
// invalid CQE is counted, logged and skipped, and the QP that it names moves to the error state
// ([Driver.Strict] stops the CQ instead). It may take the place of a request's only
// completion. From then on, a later completion of the same send queue does not retire that request
// silently. The request completes with an error, and its QP moves to the error state.
//
// The layouts follow NVIDIA's "Adapters Programmer's Reference Manual" (PRM) and are equal to
// libmlx5's, byte for byte.
package mlx5
