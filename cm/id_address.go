// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"time"

	"purerdma/abi"
	"purerdma/ucma"
)

// Bind gives the ID a local address (rdma_bind_addr(3)). With an unspecified IP
// the ID has a port on every device; port 0 is replaced by a free one, which
// LocalAddr then tells.
func (id *ID) Bind(addr Addr) error {
	if !addr.IsValid() {
		return id.opError(opBind, errNoAddr)
	}
	err := id.commandIn(opBind, StateBound, func(f *ucma.File, kid uint32) error {
		return f.Bind(kid, ucma.Addr(addr))
	})
	if err != nil {
		err.(*OpError).Local = addr
		return err
	}
	return id.queryAddrs()
}

// ResolveAddr finds the device and the neighbour that lead to dst
// (rdma_resolve_addr(3)), from src if it is not the zero Addr. The outcome is
// EventAddrResolved or EventAddrError; without a route the call itself fails.
// timeout bounds the wait for the neighbour, with a precision of one
// millisecond.
func (id *ID) ResolveAddr(src, dst Addr, timeout time.Duration) error {
	if !dst.IsValid() {
		return id.opError(opResolve, errNoAddr)
	}
	err := id.commandIn(opResolve, StateAddrQuery, func(f *ucma.File, kid uint32) error {
		return f.ResolveAddr(kid, ucma.Addr(src), ucma.Addr(dst), timeout)
	})
	if err != nil {
		err.(*OpError).Remote = dst
		return err
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if !id.remote.IsValid() {
		id.remote = dst
	}
	return nil
}

// ResolveRoute finds the path to the resolved address (rdma_resolve_route(3)).
// The outcome is EventRouteResolved or EventRouteError.
func (id *ID) ResolveRoute(timeout time.Duration) error {
	return id.commandIn(opResolve, StateRouteQuery, func(f *ucma.File, kid uint32) error {
		return f.ResolveRoute(kid, timeout)
	})
}

// SetReuseAddr lets several IDs bind the same port (RDMA_OPTION_ID_REUSEADDR,
// rdma_set_option(3)). All of them must ask for it before they bind.
func (id *ID) SetReuseAddr(on bool) error {
	value := uint32(flag(on))
	return id.command(opSetOption, func(f *ucma.File, kid uint32) error {
		return f.SetOption(kid, abi.RDMA_OPTION_ID, abi.RDMA_OPTION_ID_REUSEADDR, abi.Bytes(&value))
	})
}
