// SPDX-License-Identifier: Apache-2.0

// Package abi mirrors the structs and constants of the kernel's RDMA user-space
// ABI: rdma_user_cm.h, ib_user_verbs.h, rdma_user_ioctl.h and the headers of the
// drivers. It holds bytes and nothing else: no system call, no policy.
//
// Constants keep the kernel's spelling, so that one grep finds them here and in
// the kernel; types have Go's spelling and name the C struct and the header that
// they mirror. Padding is explicit, every struct has the layout that a C
// compiler gives it on a 64-bit machine, and a field that holds the address of
// user memory is a [Pointer], which the garbage collector sees.
package abi
