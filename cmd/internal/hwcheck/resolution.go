// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"net/netip"

	"purerdma/abi"
	"purerdma/ucma"
)

func checkResolution(t *trial) {
	if !t.target.Addr.IsValid() {
		t.skip("no address of the port's network interface is known (-a)")
	}
	f, err := ucma.Open(nil)
	if err != nil {
		t.skip("no connection manager: %v", err)
	}
	t.later(f.Close)
	id, err := f.CreateID(1, abi.RDMA_PS_TCP, abi.IB_UVERBS_QPT_RC)
	t.must("create an ID", err)
	addr := ucma.IP(netip.AddrPortFrom(t.target.Addr, 0))
	dst := ucma.IP(netip.AddrPortFrom(t.target.Addr, 7471))
	t.must("resolve the address", f.ResolveAddr(id, addr, dst, patience))
	t.resolved(f, "address", abi.RDMA_CM_EVENT_ADDR_RESOLVED)
	t.must("resolve the route", f.ResolveRoute(id, patience))
	t.resolved(f, "route", abi.RDMA_CM_EVENT_ROUTE_RESOLVED)
	var a ucma.Addrs
	t.must("query the addresses", f.QueryAddr(id, &a))
	t.note("the addresses are on port %d", a.Resp().PortNum)
	if paths, err := f.QueryPath(id); err != nil {
		t.note("paths: %v", err)
	} else {
		t.note("%d paths", len(paths))
	}
	_, err = f.DestroyID(id)
	t.must("destroy the ID", err)
}

// resolved waits for an event of an ID.
func (t *trial) resolved(f *ucma.File, what string, want uint32) {
	ctx, cancel := context.WithTimeout(t.ctx, 2*patience)
	defer cancel()
	e, err := f.GetEvent(ctx)
	t.must("event of the "+what, err)
	if e.Type != want {
		t.fail("event %d of the %s, status %d, want event %d", e.Type, what, e.Status, want)
	}
	t.note("%s: resolved", what)
}
