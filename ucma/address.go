// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"time"

	"purerdma/abi"
)

// Bind binds an ID to a local address (RDMA_USER_CM_CMD_BIND). Port 0 is
// replaced by a free one at once.
func (f *File) Bind(id uint32, addr Addr) error {
	sa, size, err := EncodeSockaddr(addr)
	if err != nil {
		return &OpError{Op: CommandName(abi.RDMA_USER_CM_CMD_BIND), ID: id, Err: err}
	}
	return runCommand(f, abi.RDMA_USER_CM_CMD_BIND, id, abi.UcmBind{ID: id, AddrSize: size, Addr: sa})
}

// ResolveAddr finds the device and the neighbor for a destination (RDMA_USER_CM_CMD_RESOLVE_ADDR).
// src may be the zero Addr. An ID that is bound ignores it. The outcome is an ADDR_RESOLVED or
// ADDR_ERROR event, but a missing route is an error of the call itself.
func (f *File) ResolveAddr(id uint32, src, dst Addr, timeout time.Duration) error {
	const code = abi.RDMA_USER_CM_CMD_RESOLVE_ADDR
	cmd := abi.UcmResolveAddr{ID: id, TimeoutMS: milliseconds(timeout)}
	var err error
	if src != (Addr{}) {
		if cmd.SrcAddr, cmd.SrcSize, err = EncodeSockaddr(src); err != nil {
			return &OpError{Op: CommandName(code), ID: id, Err: err}
		}
	}
	if cmd.DstAddr, cmd.DstSize, err = EncodeSockaddr(dst); err != nil {
		return &OpError{Op: CommandName(code), ID: id, Err: err}
	}
	return runCommand(f, code, id, cmd)
}

// ResolveRoute finds the path to the resolved address
// (RDMA_USER_CM_CMD_RESOLVE_ROUTE). The outcome is a ROUTE_RESOLVED or
// ROUTE_ERROR event.
func (f *File) ResolveRoute(id uint32, timeout time.Duration) error {
	return runCommand(f, abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE, id,
		abi.UcmResolveRoute{ID: id, TimeoutMS: milliseconds(timeout)})
}

// milliseconds converts a timeout for the kernel. It rounds up, because the kernel refuses 0 or
// never times out with it, and is bounded by the size of the field.
func milliseconds(d time.Duration) uint32 {
	ms := d / time.Millisecond
	if d%time.Millisecond > 0 {
		ms++
	}
	return uint32(min(max(ms, 1), 1<<31-1))
}
