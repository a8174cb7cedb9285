// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"time"

	"purerdma/ucma"
)

// Bind gives the ID a local address (rdma_bind_addr(3)). With an unspecified IP
// the ID has a port on every device; else the device that has the address is
// opened. Port 0 is replaced by a free one, which LocalAddr then tells.
func (id *ID) Bind(addr Addr) error {
	if err := id.bind(addr); err != nil {
		return err
	}
	return id.bindDevice()
}

// bind is Bind without the device: a listener must not hold it open, for its
// removal, of which only Accept would hear, could wait for that.
func (id *ID) bind(addr Addr) error {
	if !addr.IsValid() {
		return id.opError(opBind, errNoAddr)
	}
	err := id.commandIn(opBind, StateBound, func(f *ucma.File, kid uint32) error {
		return f.Bind(kid, ucma.Addr(addr))
	})
	if err != nil {
		err.(*OpError).Local = addr
	}
	return err
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
	return id.commandIn(opResolveRoute, StateRouteQuery, func(f *ucma.File, kid uint32) error {
		return f.ResolveRoute(kid, timeout)
	})
}
