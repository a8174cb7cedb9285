// SPDX-License-Identifier: Apache-2.0

package cmtest

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"time"

	"purerdma/abi"
	"purerdma/ucma"
)

// resolveAddr implements RESOLVE_ADDR. An address without a device results in ADDR_ERROR after
// the timeout.
func (k *Kernel) resolveAddr(id *id, c *abi.UcmResolveAddr) error {
	dst := addrPort(&c.DstAddr)
	if !id.in(idle, bound) || !dst.IsValid() {
		return syscall.EINVAL
	}
	var src netip.Addr
	switch {
	case id.state == bound && id.local.IsValid():
		src = id.local.Addr()
	case c.SrcSize != 0:
		src = addrPort(&c.SrcAddr).Addr()
	}
	if src.IsValid() && src.Is4() != dst.Addr().Is4() {
		return syscall.EINVAL
	}
	dev, err := k.source(id, src, dst.Addr())
	if err != nil {
		return err
	}
	if !src.IsValid() || src.IsUnspecified() {
		src = addrOf(dev, dst.Addr())
	}
	if id.state == idle {
		if err := k.assign(id, netip.AddrPortFrom(src, addrPort(&c.SrcAddr).Port())); err != nil {
			return err
		}
	}
	id.local = netip.AddrPortFrom(src, id.local.Port())
	id.remote = dst
	if a := dst.Addr(); k.with(a) == nil && !a.IsLoopback() && !a.IsUnspecified() {
		k.to(id, addrQuery)
		turn := id.turn
		k.after(time.Duration(c.TimeoutMS)*time.Millisecond, func() {
			if id.turn == turn && !id.gone {
				k.to(id, bound)
				k.tell(id, abi.RDMA_CM_EVENT_ADDR_ERROR, -int(syscall.ETIMEDOUT))
			}
		})
		return nil
	}
	id.dev = dev
	k.to(id, addrResolved)
	k.tell(id, abi.RDMA_CM_EVENT_ADDR_RESOLVED, 0)
	return nil
}

// source returns the outgoing device of an ID. It is the device with the ID's own address, or
// the first device without the destination address. By default, the two ends of a connection
// are therefore on two devices.
func (k *Kernel) source(id *id, src, dst netip.Addr) (*device, error) {
	switch {
	case id.dev != nil:
		return id.dev, nil
	case src.IsValid() && !src.IsUnspecified() && !src.IsLoopback():
		if d := k.with(src); d != nil {
			return d, nil
		}
		return nil, syscall.EADDRNOTAVAIL
	}
	to := k.with(dst)
	for _, d := range k.devices {
		if d != to && !d.removed {
			return d, nil
		}
	}
	if to == nil {
		return nil, syscall.ENODEV
	}
	return to, nil
}

// addrOf returns an address of a device, if possible of the same family as like.
func addrOf(d *device, like netip.Addr) netip.Addr {
	for _, a := range d.addrs {
		if a.Is4() == like.Is4() {
			return a
		}
	}
	return d.addrs[0]
}

// resolveRoute implements RESOLVE_ROUTE.
func (k *Kernel) resolveRoute(id *id, timeoutMS uint32) error {
	if id.state != addrResolved || timeoutMS == 0 {
		return syscall.EINVAL
	}
	k.to(id, routeResolved)
	k.tell(id, abi.RDMA_CM_EVENT_ROUTE_RESOLVED, 0)
	return nil
}

// query implements QUERY.
func (k *Kernel) query(id *id, c *abi.UcmQuery, out uint16) error {
	switch c.Option {
	case abi.RDMA_USER_CM_QUERY_ADDR, abi.RDMA_USER_CM_QUERY_GID:
		resp := abi.UcmQueryAddrResp{}
		if id.dev != nil {
			resp.PortNum, resp.PKey, resp.IBDevIndex = 1, defaultPKey, uint32(id.dev.info.Index)
			var guid [8]byte
			binary.BigEndian.PutUint64(guid[:], id.dev.info.NodeGUID)
			resp.NodeGUID = binary.NativeEndian.Uint64(guid[:])
		}
		form := ucma.IP
		if c.Option == abi.RDMA_USER_CM_QUERY_GID {
			form = id.gid
		}
		if id.local.IsValid() {
			resp.SrcAddr, resp.SrcSize, _ = ucma.EncodeSockaddr(form(id.local))
		}
		if id.remote.IsValid() {
			resp.DstAddr, resp.DstSize, _ = ucma.EncodeSockaddr(form(id.remote))
		}
		answer(c.Response, &resp)
		return nil
	case abi.RDMA_USER_CM_QUERY_PATH:
		if id.dev == nil || id.in(bound, addrQuery, addrResolved, listening) {
			answer(c.Response, &abi.UcmQueryPathResp{})
			return nil
		}
		type onePath struct {
			Head abi.UcmQueryPathResp
			Path abi.IBPathRecData
		}
		if int(out) < abi.Size[onePath]() {
			answer(c.Response, &abi.UcmQueryPathResp{NumPaths: 1})
			return nil
		}
		answer(c.Response, &onePath{abi.UcmQueryPathResp{NumPaths: 1}, id.path()})
		return nil
	}
	return syscall.ENOSYS
}

// defaultPKey is the only entry of a RoCE device's P_Key table.
const defaultPKey = 0xffff

// serviceID returns the service ID of a port.
func (id *id) serviceID(port uint16) uint64 { return uint64(id.space)<<16 | uint64(port) }

// gid converts an address to an InfiniBand address.
func (id *id) gid(a netip.AddrPort) ucma.Addr {
	return ucma.Addr{IB: ucma.IBAddr{PKey: defaultPKey, GID: a.Addr().As16(), ServiceID: id.serviceID(a.Port()), ServiceIDMask: 1<<64 - 1}}
}

// path returns the path record that Linux synthesizes on RoCE.
func (id *id) path() abi.IBPathRecData {
	const (
		exactly  = 2 // selector of the MTU, the rate and the life time
		mtu1024  = 3
		rate10G  = 3
		lifeTime = 16
	)
	p := abi.IBPathRecData{Flags: abi.IB_PATH_GMP | abi.IB_PATH_PRIMARY | abi.IB_PATH_BIDIRECTIONAL}
	b := abi.Bytes(&p.PathRec)
	dgid, sgid := id.remote.Addr().As16(), id.local.Addr().As16()
	binary.BigEndian.PutUint64(b, id.serviceID(id.remote.Port()))
	copy(b[8:], dgid[:])
	copy(b[24:], sgid[:])
	b[47] = 64 // hop limit
	b[49] = 0x80 | 1
	binary.BigEndian.PutUint16(b[50:], defaultPKey)
	b[54], b[55], b[56] = exactly<<6|mtu1024, exactly<<6|rate10G, exactly<<6|lifeTime
	return p
}
