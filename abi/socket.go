// SPDX-License-Identifier: Apache-2.0

package abi

// Address families (linux/socket.h), as they stand in the first two bytes of a
// SockaddrStorage.
const (
	AF_INET  = 2
	AF_INET6 = 10
	AF_IB    = 27
)

// Sizes of the structs that a SockaddrStorage may hold.
const (
	SizeofSockaddrIn  = 16
	SizeofSockaddrIn6 = 28
	SizeofSockaddrIB  = 48
)
