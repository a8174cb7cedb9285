// SPDX-License-Identifier: Apache-2.0

// Package abi mirrors the structs and constants of the kernel's RDMA user-space
// ABI: rdma_user_cm.h, ib_user_verbs.h, rdma_user_ioctl.h, rdma_netlink.h, the
// headers that these include, and those of the drivers rxe, siw and mlx5. It
// holds bytes and nothing else: no system call, no policy.
//
// Constants keep the kernel's spelling, so that one grep finds them here and in
// the kernel; types have Go's spelling and name the C struct and the header that
// they mirror. Padding is explicit, every struct has the layout that a C
// compiler gives it on a 64-bit machine, and a field that holds the address of
// user memory is a [Pointer], which the garbage collector sees.
//
// A struct is as the newest kernel has it. "Since Linux 6.12" stands with what
// Linux 6.1 does not have and 6.12, the next kernel that was measured, has: a
// kernel between the two may have it, too.
//
// Nothing here is by hand alone. The tests compare every struct, field and
// constant with testdata, which test/abi/gen measures with a C compiler, and
// find what a header has and this package has not; test/abi/btf compares it with
// the running kernel.
package abi
