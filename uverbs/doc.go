// SPDX-License-Identifier: Apache-2.0

// Package uverbs has one Go function for each command of the kernel's verbs device,
// /dev/infiniband/uverbsN. Its only state is the file, with its mappings and its event files. It
// does not interpret rings or states. Packages provider and verbs interpret the responses.
//
// Control commands go through RDMA_VERBS_IOCTL. Commands without a method of their own go through
// its INVOKE_WRITE. write(2) is left for the two commands of the data path, because it is cheaper
// there.
//
// A [File] uses a [Transport], which the tests of a program can replace by a kernel of their own
// (see package uverbstest).
package uverbs
