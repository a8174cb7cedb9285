// SPDX-License-Identifier: Apache-2.0

package cmtest

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"purerdma/abi"
)

// state is the state of an ID. Linux has one state for addresses and one for the connection.
// The state of the connection counts once there is one.
type state int

const (
	idle state = iota
	bound
	addrQuery
	addrResolved
	routeResolved
	reqSent
	reqReceived
	repSent
	repReceived
	established // a datagram ID that has sent or received an answer
	dreqSent
	dreqReceived
	ended
	listening
	removed
)

var stateNames = [...]string{
	"idle", "bound", "resolving the address", "address resolved", "route resolved", "REQ sent", "REQ received", "REP sent", "REP received",
	"established", "DREQ sent", "DREQ received", "ended", "listening", "device removed",
}

// id is an ID of the connection manager.
type id struct {
	num   uint32
	uid   uint64 // 0 until an ID from a connect request is accepted, so that it gets no events before
	file  *file
	space uint16 // RDMA_PS_...
	state state
	turn  int // counts the state changes
	gone  bool

	dev           *device // nil without a device
	local, remote netip.AddrPort
	holdsPort     bool
	reuseAddr     bool

	backlog  int // of a listener
	pending  int // requests that have not been fetched
	reported uint32

	peer      *id
	active    bool
	psn       uint32           // first PSN sent
	own       abi.UcmConnParam // of the own CONNECT or ACCEPT
	theirs    abi.UcmConnParam // of the peer, as in an event
	responder uint8            // RDMA READs served at a time
	initiator uint8            // RDMA READs outstanding at a time
}

func (id *id) String() string {
	s := fmt.Sprintf("ID %d, %s, %v", id.num, stateNames[id.state], id.local)
	if id.remote.IsValid() {
		s += fmt.Sprintf(" to %v", id.remote)
	}
	return s
}

func (id *id) datagram() bool { return id.space == abi.RDMA_PS_UDP }

func (id *id) in(states ...state) bool { return slices.Contains(states, id.state) }

func (k *Kernel) to(id *id, s state) {
	id.state = s
	id.turn++
}

// lowest returns the lowest unused number, which Linux assigns next.
func lowest[T any](used map[uint32]T) (n uint32) {
	for ; ; n++ {
		if _, ok := used[n]; !ok {
			return n
		}
	}
}

func (k *Kernel) create(f *file, uid uint64, space uint16) *id {
	k.lastPSN += 0x1001
	id := &id{num: lowest(k.ids), uid: uid, file: f, space: space, psn: k.lastPSN & 0xffffff}
	k.ids[id.num] = id
	return id
}

// destroy implements DESTROY_ID. It drops the ID's unfetched events, and destroys the new IDs
// of the connect requests in them.
func (k *Kernel) destroy(id *id) {
	k.hangUp(id)
	id.gone = true
	delete(k.ids, id.num)
	for num, g := range k.groups {
		if g.id == id {
			delete(k.groups, num)
		}
	}
	for _, ev := range id.file.drop(func(ev event) bool { return ev.id == id }) {
		if ev.child != nil {
			k.destroy(ev.child)
		}
	}
}

// firstPort is the first of the ports that Linux assigns (net.ipv4.ip_local_port_range).
const firstPort = 32768

// assign sets an ID's local address. It chooses a free port if the port of addr is 0.
func (k *Kernel) assign(id *id, addr netip.AddrPort) error {
	for port := addr.Port(); port == 0; {
		if k.lastPort++; k.lastPort < firstPort {
			k.lastPort = firstPort
		}
		addr = netip.AddrPortFrom(addr.Addr(), k.lastPort)
		if k.conflict(id, addr) == nil {
			port = k.lastPort
		}
	}
	if err := k.conflict(id, addr); err != nil {
		return err
	}
	id.local, id.holdsPort = addr, true
	return nil
}

// conflict compares an address with the addresses of the other IDs of the port space
// (cma_check_port).
func (k *Kernel) conflict(id *id, addr netip.AddrPort) error {
	for _, o := range k.ids {
		if o == id || !o.holdsPort || o.space != id.space || o.local.Port() != addr.Port() || o.reuseAddr && id.reuseAddr && o.state != listening {
			continue
		}
		switch {
		case o.local.Addr() == addr.Addr():
			return syscall.EADDRINUSE
		case o.local.Addr().IsUnspecified() || addr.Addr().IsUnspecified():
			return syscall.EADDRNOTAVAIL
		}
	}
	return nil
}

// bind implements BIND.
func (k *Kernel) bind(id *id, addr netip.AddrPort) error {
	if id.state != idle || !addr.IsValid() {
		return syscall.EINVAL
	}
	if a := addr.Addr(); a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "" {
		return syscall.EINVAL // cma_check_linklocal
	}
	var dev *device
	if a := addr.Addr(); !a.IsUnspecified() && !a.IsLoopback() {
		if dev = k.with(a); dev == nil {
			return syscall.EADDRNOTAVAIL
		}
	}
	if err := k.assign(id, addr); err != nil {
		return err
	}
	id.dev = dev
	k.to(id, bound)
	return nil
}

// listen implements LISTEN.
func (k *Kernel) listen(id *id, backlog int32) error {
	switch id.state {
	case idle:
		if err := k.assign(id, netip.AddrPortFrom(netip.IPv4Unspecified(), 0)); err != nil {
			return err
		}
	case bound:
		for _, o := range k.ids {
			if o != id && o.state == listening && o.space == id.space && o.local.Port() == id.local.Port() &&
				(o.local.Addr() == id.local.Addr() || o.local.Addr().IsUnspecified() || id.local.Addr().IsUnspecified()) {
				return syscall.EADDRINUSE
			}
		}
	default:
		return syscall.EINVAL
	}
	const maxBacklog = 1024 // net.rdma_ucm.max_backlog
	if id.backlog = int(backlog); id.backlog <= 0 || id.backlog > maxBacklog {
		id.backlog = maxBacklog
	}
	k.to(id, listening)
	return nil
}
