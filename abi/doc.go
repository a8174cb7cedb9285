// SPDX-License-Identifier: Apache-2.0

// Package abi mirrors the structs and constants of the kernel's RDMA user-space ABI. The headers are
// rdma_user_cm.h, ib_user_verbs.h, rdma_user_ioctl.h, rdma_netlink.h, the headers that these
// include, and the headers of the drivers rxe, siw, erdma and mlx5. The package holds only data, no system
// calls and no policy.
//
// Constants keep the kernel's spelling, so that one grep finds them here and in the kernel. Types
// have Go's spelling and name the C struct and the header that they mirror. Padding is explicit, and
// every struct has the layout of a C compiler on a 64-bit machine. A field that holds the address of
// user memory is a [Pointer], which the garbage collector follows.
//
// A struct has the form of the newest kernel. "Since Linux 6.12" marks an addition that Linux 6.1
// does not have. 6.12 is the next measured kernel, and a kernel between the two may have the
// addition.
//
// Tests check everything here. They compare every struct, field and constant with testdata, which
// test/abi/gen measures with a C compiler. They also find items of a header that this package
// lacks. test/abi/btf compares the package with the running kernel.
package abi
