// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"purerdma/abi"
	"purerdma/internal/netns"
	"purerdma/ucma"
	"purerdma/verbs"
)

// Bind sets the local address of the ID (rdma_bind_addr(3)). With an unspecified IP the ID has
// a port on every device. Otherwise Bind opens the device that has the address. Port 0 is
// replaced by a free one, which LocalAddr then returns.
func (id *ID) Bind(addr Addr) error {
	if err := id.bind(addr); err != nil {
		return err
	}
	return id.bindDevice()
}

// bind is Bind without opening the device. The ID of a listener must not hold the device open,
// because the removal of the device could wait for that. Only Accept would fetch the event of
// the removal. heldDevices holds the device open instead.
func (id *ID) bind(addr Addr) error {
	if !addr.IsValid() {
		return id.opError(opBind, errNoAddr)
	}
	err := id.run(opBind, to(StateBound), func(f *ucma.File, kid uint32) error {
		sa, err := id.sockaddr(addr)
		if err != nil {
			return err
		}
		return f.Bind(kid, sa)
	})
	if oe, ok := err.(*OpError); ok {
		oe.Local, oe.Err = addr, hint(oe.Err, addr, Addr{})
	}
	return err
}

// ResolveAddr finds the device and the neighbor that lead to dst (rdma_resolve_addr(3)), from
// src if it is not the zero Addr. The outcome is EventAddrResolved or EventAddrError. Without
// a route the call itself fails. timeout bounds the wait for the neighbor, with a precision of
// one millisecond. A bound ID keeps its address and ignores src. Addresses of two families
// return an *ArgumentError.
func (id *ID) ResolveAddr(src, dst Addr, timeout time.Duration) error {
	if !dst.IsValid() {
		return id.opError(opResolve, errNoAddr)
	}
	local := id.LocalAddr()
	var family error
	if local.IsValid() {
		_, dst, family = oneFamily(local, dst) // the kernel ignores src
	} else {
		src, dst, family = oneFamily(src, dst)
	}
	from := cmp.Or(local, src) // a bound ID ignores src
	err := id.run(opResolve, &pendingTransition{after: StateAddrQuery, to: dst}, func(f *ucma.File, kid uint32) error {
		if family != nil {
			return family
		}
		source, err := id.sockaddr(src)
		if err != nil {
			return err
		}
		to, err := id.sockaddr(dst)
		if err != nil {
			return err
		}
		before := id.asks(route{from, dst}) // the event may come before the command returns
		// RESOLVE_ADDR is a raw system call with every driver, so the device need not be known
		// yet. The kernel queries the neighbor after the command.
		err = f.ResolveAddr(kid, source, to, timeout)
		if err != nil {
			id.asks(before)
		}
		return err
	})
	if oe, ok := err.(*OpError); ok {
		if from.IsValid() {
			oe.Local = from
		}
		oe.Remote, oe.Err = dst, hint(oe.Err, from, dst)
	}
	return err
}

// ResolveRoute finds the path to the resolved address (rdma_resolve_route(3)).
// The outcome is EventRouteResolved or EventRouteError.
func (id *ID) ResolveRoute(timeout time.Duration) error {
	err := id.run(opResolveRoute, to(StateRouteQuery), func(f *ucma.File, kid uint32) error {
		return f.ResolveRoute(kid, timeout)
	})
	if oe, ok := err.(*OpError); ok {
		asked := id.askedFor()
		oe.Err = hint(oe.Err, asked.from, asked.to)
	}
	return err
}

// askedFor returns the addresses of the last ResolveAddr call.
func (id *ID) askedFor() route {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.asked
}

// asks stores the addresses of a ResolveAddr call, and returns the addresses of the previous
// one.
func (id *ID) asks(now route) (before route) {
	id.mu.Lock()
	defer id.mu.Unlock()
	before, id.asked = id.asked, now
	return before
}

// sockaddr returns an address for a command. A zone name is the name of an interface in the
// ID's network namespace. Package ucma resolves the names of the thread's own namespace.
func (id *ID) sockaddr(a Addr) (ucma.Addr, error) {
	zone := a.Addr().Zone()
	if zone == "" || id.netNS == "" {
		return ucma.Addr(a), nil
	}
	var scope uint32
	err := netns.Do(id.netNS, func() (err error) {
		scope, err = ucma.ScopeID(zone)
		return err
	})
	ip := a.Addr().WithZone(strconv.FormatUint(uint64(scope), 10))
	return ucma.IP(netip.AddrPortFrom(ip, a.Port())), err
}

// addrsPool pools the memory of address queries. Each accepted connection makes one.
var addrsPool = sync.Pool{New: func() any { return new(ucma.Addrs) }}

// bindDevice queries the kernel for the ID's addresses and device, and opens the device.
func (id *ID) bindDevice() error {
	addrs := addrsPool.Get().(*ucma.Addrs)
	defer addrsPool.Put(addrs)
	return id.run(opQuery, nil, func(f *ucma.File, kid uint32) error {
		err := f.QueryAddr(kid, addrs)
		if err != nil {
			return err
		}
		resp := addrs.Resp()
		var dev *verbs.Device
		if resp.PortNum != 0 {
			// The kernel returns the GUID in network byte order.
			var guid [8]byte
			binary.NativeEndian.PutUint64(guid[:], resp.NodeGUID)
			dev, err = verbsInternal.OpenIndex(id.Channel().host, int(resp.IBDevIndex), binary.BigEndian.Uint64(guid[:]))
		}
		id.mu.Lock()
		defer id.mu.Unlock()
		id.setAddrs(resp)
		id.dev, dev = dev, id.dev
		if dev != nil {
			dev.Close()
		}
		return err
	})
}

// queryAddrs queries the kernel for the ID's addresses and stores them.
func (id *ID) queryAddrs() error {
	var addrs ucma.Addrs
	return id.run(opQuery, nil, func(f *ucma.File, kid uint32) error {
		if err := f.QueryAddr(kid, &addrs); err != nil {
			return err
		}
		id.mu.Lock()
		defer id.mu.Unlock()
		id.setAddrs(addrs.Resp())
		return nil
	})
}

// setAddrs stores the addresses and the port from the kernel. The caller holds id.mu.
func (id *ID) setAddrs(resp *abi.UcmQueryAddrResp) {
	id.local = addrFromKernel(&resp.SrcAddr)
	if id.remote = addrFromKernel(&resp.DstAddr); id.remote.Addr().IsUnspecified() {
		id.remote = Addr{} // the kernel returns the unspecified address if there is none
	}
	for _, t := range id.pending {
		t.to = Addr{}
	}
	id.port = resp.PortNum
}

// Migrate moves the ID and its unfetched events to another channel (rdma_migrate_id(3)). It
// waits for a command of the ID that is in the kernel. Unlike rdma_migrate_id(3) it does not
// wait for events to be acknowledged. An event that was fetched before may therefore be
// handled after the migration. A goroutine that waits in Next of the other channel gets the
// events that have moved.
//
// Do not migrate a listener that may have unfetched connect requests. The kernel leaves their
// new IDs behind.
func (id *ID) Migrate(to *EventChannel) error {
	if err := id.enter(opMigrate); err != nil {
		return err
	}
	defer id.leave()
	id.moving.Lock()
	defer id.moving.Unlock()
	from := id.Channel()
	if from == to {
		return nil
	}
	// Both channels list the ID from now on, because an event may have been fetched from the
	// old one already.
	id.mu.Lock()
	uids := []uint64{id.uid}
	for _, m := range id.groups {
		uids = append(uids, m.uid)
	}
	id.mu.Unlock()
	for _, uid := range uids {
		if err := to.addAs(uid, id); err != nil {
			return id.opError(opMigrate, err)
		}
	}
	if _, err := to.file.MigrateID(id.kid, from.file); err != nil {
		for _, uid := range uids {
			to.remove(uid)
		}
		return id.opError(opMigrate, err)
	}
	id.mu.Lock()
	id.ch, id.left = to, append(id.left, from)
	for _, m := range id.groups {
		uids = slices.DeleteFunc(uids, func(uid uint64) bool { return uid == m.uid })
	}
	id.mu.Unlock()
	for _, uid := range uids[1:] {
		to.remove(uid) // of a membership that ended in between
	}
	to.file.Wake() // the kernel wakes no reader for events that move with an ID
	return nil
}
