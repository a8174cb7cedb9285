// SPDX-License-Identifier: Apache-2.0

// Package uverbs has one Go function for each command of the kernel's verbs
// device, /dev/infiniband/uverbsN. It keeps no state but the file, its mappings
// and its event files, and knows nothing of rings or states: what an answer
// means is for packages provider and verbs.
//
// Control commands go through RDMA_VERBS_IOCTL. Those without a method of their
// own go through its INVOKE_WRITE. write(2) is left for the two commands of the
// data path, where it is cheaper.
//
// A [File] stands on a [Transport], the seam behind which a program's tests put
// a kernel of their own (see package uverbstest).
package uverbs
