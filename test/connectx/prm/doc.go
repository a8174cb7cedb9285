// SPDX-License-Identifier: Apache-2.0

// Package prm names what a ConnectX and its drivers say to each other: opcodes,
// statuses, and where each field of a struct is. Names, offsets and bits are those
// of NVIDIA's "Adapters Programmer's Reference Manual" (PRM); Linux has them in
// include/linux/mlx5/mlx5_ifc.h and device.h.
//
// A struct is bytes, in big-endian dwords. Its table names the fields that are in
// use, each by the offset of its dword and its bits, most significant first, as the
// PRM prints them:
//
//	size := 1 << prm.CQC.LogCQSize.Get(context)
//	prm.CQC.Status.Set(context, prm.CQStatusOverflow)
//
// What no field of a table covers is reserved, see [Reserved].
package prm
