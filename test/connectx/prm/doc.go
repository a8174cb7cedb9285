// SPDX-License-Identifier: Apache-2.0

// Package prm defines the interface between a ConnectX and its drivers, which consists of
// opcodes, statuses, and the offsets of struct fields. Names, offsets and bits are from
// NVIDIA's "Adapters Programmer's Reference Manual" (PRM). Linux has them in
// include/linux/mlx5/mlx5_ifc.h and device.h.
//
// A struct consists of bytes, in big-endian dwords. Its table lists the used fields, each with
// the offset of its dword and its bits, most significant first, as in the PRM:
//
//	size := 1 << prm.CQC.LogCQSize.Get(context)
//	prm.CQC.Status.Set(context, prm.CQStatusOverflow)
//
// Bits without a field in a table are reserved, see [Reserved].
package prm
