// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// These tests provoke each event that the kernel's drivers can deliver, and check its
// contents. The tests of datagrams, multicast, rejections and slow events are in their own
// files.

func TestEventAddrError(t *testing.T) {
	r := newRig(t)
	id := r.newID(r.client)
	src := cm.AddrFrom(netip.AddrPortFrom(r.hosts[1].IPv4, 0))
	unused, err := cm.ParseAddr(neighbour(r.hosts[1].IPv4, 78, 1))
	r.ok(err)
	start := time.Now()
	r.ok(id.ResolveAddr(src, unused, 300*time.Millisecond))
	ev := r.want(r.client, id, cm.EventAddrError, -int(syscall.ETIMEDOUT))
	if took := time.Since(start); took < 250*time.Millisecond {
		t.Errorf("ADDR_ERROR came after %v, want at least 250ms", took)
	}
	var ue *cm.UnreachableError
	if err := ev.Err(); !errors.As(err, &ue) || !errors.Is(err, syscall.ETIMEDOUT) || !ue.Timeout() {
		t.Errorf("Err() = %v, want an UnreachableError with ETIMEDOUT", err)
	}
	// The same ID may try again.
	r.ok(id.ResolveAddr(src, r.listener.LocalAddr(), 2*time.Second))
	r.want(r.client, id, cm.EventAddrResolved, 0)
}

// TestEventsOfAConnection checks the order, the contents and the IDs of the events in a
// connection's life.
func TestEventsOfAConnection(t *testing.T) {
	r := newRig(t)
	client := r.withQP(r.resolved())
	server := r.withQP(r.requested(client, &cm.ConnParam{PrivateData: []byte("hello"), ResponderResources: 3, InitiatorDepth: 2, RetryCount: 5, RNRRetryCount: 6, FlowControl: true}))
	r.ok(server.Accept(&cm.ConnParam{PrivateData: []byte("welcome"), ResponderResources: 1, InitiatorDepth: 1, RNRRetryCount: 4}))
	ev := r.want(r.client, client, cm.EventEstablished, 0)
	if p := ev.Conn; !bytes.HasPrefix(p.PrivateData, []byte("welcome")) || len(p.PrivateData) != 196 || p.QPNum != server.QP().Num() || p.RNRRetryCount != 4 {
		t.Errorf("ESTABLISHED of the client has %+v, want the parameters of Accept", p)
	}
	ev = r.want(r.server, server, cm.EventEstablished, 0)
	if ev.Conn.PrivateData != nil {
		t.Errorf("ESTABLISHED of the server has %+v, want no private data", ev.Conn)
	}
	r.exchange(client, server)
	r.exchange(server, client)

	r.ok(client.Disconnect())
	r.want(r.server, server, cm.EventDisconnected, 0)
	r.ok(server.Disconnect())
	r.want(r.client, client, cm.EventDisconnected, 0)
	for _, id := range []*cm.ID{server, client} {
		if id.QP().State() != verbs.QPErr || id.State() != cm.StateDisconnected {
			t.Errorf("after the end: QP in %v, ID in %v, want ERR, disconnected", id.QP().State(), id.State())
		}
	}
	// The kernel does not reuse a QP number for twice the life time of a packet.
	r.want(r.client, client, cm.EventTimewaitExit, 0)
	r.want(r.server, server, cm.EventTimewaitExit, 0)
}

// TestEventConnectResponse checks that an ID without a QP gets the response, and that the
// other side gets no event until Establish.
func TestEventConnectResponse(t *testing.T) {
	r := newRig(t)
	client := r.resolved()
	server := r.withQP(r.requested(client, &cm.ConnParam{QPNum: 0x123456, SRQ: true}))
	r.ok(server.Accept(nil))
	ev := r.want(r.client, client, cm.EventConnectResponse, 0)
	if ev.Conn.QPNum != server.QP().Num() || client.State() != cm.StateResponded {
		t.Errorf("CONNECT_RESPONSE has %+v, state %v, want the server's QP number, responded", ev.Conn, client.State())
	}
	r.quiet(r.server, 300*time.Millisecond)
	r.ok(client.Establish())
	r.want(r.server, server, cm.EventEstablished, 0)
}

// TestEventConnectError makes the move of the active side's QP fail when the response comes.
// The library rejects the response, and reports CONNECT_ERROR.
func TestEventConnectError(t *testing.T) {
	r := newRig(t)
	client := r.withQP(r.resolved())
	server := r.withQP(r.requested(client, nil))
	r.ok(client.QP().Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
	r.ok(server.Accept(nil))
	ev := r.want(r.client, client, cm.EventConnectError, -1)
	if err := ev.Err(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Err() = %v, want EINVAL of the QP's transition", err)
	}
	r.want(r.server, server, cm.EventRejected, cm.RejectConsumer)
	if client.State() != cm.StateFailed || server.State() != cm.StateFailed {
		t.Errorf("states = %v, %v, want failed, failed", client.State(), server.State())
	}
}

// TestEventUnreachableOnAConnection checks that the kernel reports a neighbour's new hardware
// address as UNREACHABLE. The event is only a hint. The connection still works.
func TestEventUnreachableOnAConnection(t *testing.T) {
	r := newRig(t)
	server, client := r.connected()
	undo := r.hosts[1].MoveNeighbour(t, r.hosts[0].IPv4)
	r.want(r.client, client, cm.EventUnreachable, -int(syscall.ETIMEDOUT))
	if client.State() != cm.StateEstablished || client.QP().State() != verbs.QPRTS {
		t.Errorf("state = %v, QP in %v, want established, RTS", client.State(), client.QP().State())
	}
	undo()
	r.exchange(server, client)
	r.ok(server.Disconnect())
	// The kernel may report the neighbour's return as well, before DISCONNECTED.
	for {
		ev, err := r.client.Next(within(t, 10*time.Second))
		r.ok(err)
		if ev.Type == cm.EventDisconnected {
			break
		}
		if ev.Type != cm.EventUnreachable {
			t.Fatalf("Next() = %v, want UNREACHABLE or DISCONNECTED", ev)
		}
	}
}

// TestEventAddrChange fails a bond over to its other interface, whose hardware address it
// takes on. Both sides of the connection and the listener get ADDR_CHANGE, and nothing ends.
func TestEventAddrChange(t *testing.T) {
	vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	h, failOver := vmtest.Bond(t)
	r := rigOn(t, h, h, cm.IDConfig{})
	server, client := r.connected()
	failOver()
	r.want(r.client, client, cm.EventAddrChange, 0)
	told := map[*cm.ID]bool{}
	for range 2 {
		ev := expect(t, r.server, cm.EventAddrChange)
		ev.Ack()
		told[ev.ID] = true
	}
	if !told[server] || !told[r.listener] {
		t.Errorf("ADDR_CHANGE came for %v, want the server and the listener", told)
	}
	if server.State() != cm.StateEstablished || r.listener.State() != cm.StateListening {
		t.Errorf("states = %v, %v, want established, listening", server.State(), r.listener.State())
	}
}

// TestEventDeviceRemoval checks that every ID on the device, including the listener, gets one
// DEVICE_REMOVAL. The ID of the other side is disconnected.
func TestEventDeviceRemoval(t *testing.T) {
	r := newRig(t)
	server, client := r.connected()
	gone := make(chan error, 1)
	go func() { gone <- r.hosts[0].Unplug() }()
	// Plug the device in again even after a failure, for the following tests.
	t.Cleanup(func() {
		server.Close()
		r.listener.Close()
		r.ok(<-gone)
		r.hosts[0].Plug(t)
	})
	told := map[*cm.ID]bool{}
	for len(told) < 2 {
		ev, err := r.server.Next(within(t, 20*time.Second))
		r.ok(err)
		ev.Ack()
		// The drivers of iWARP end their streams themselves, before or after the removal.
		if ev.Type == cm.EventDisconnected && ev.ID == server && vmtest.IWARP() {
			continue
		}
		if ev.Type != cm.EventDeviceRemoval || told[ev.ID] {
			t.Fatalf("Next() = %v (%v), want %v", ev, ev.Err(), cm.EventDeviceRemoval)
		}
		told[ev.ID] = true
		var re *verbs.DeviceRemovedError
		if !errors.As(ev.Err(), &re) || ev.ID.State() != cm.StateRemoved {
			t.Errorf("%v: Err() = %v, state %v, want a DeviceRemovedError, removed", ev, ev.Err(), ev.ID.State())
		}
	}
	if !told[server] || !told[r.listener] {
		t.Errorf("DEVICE_REMOVAL came for %v, want the server and the listener", told)
	}
	r.want(r.client, client, cm.EventDisconnected, 0)
	var re *verbs.DeviceRemovedError
	if err := server.Disconnect(); !errors.As(err, &re) {
		t.Errorf("Disconnect() = %v, want a DeviceRemovedError", err)
	}
}

// TestEventUser wakes a waiting Next with WriteEvent. Kernels up to Linux 6.12 lack the
// command.
func TestEventUser(t *testing.T) {
	r := newRig(t)
	id := r.newID(r.client)
	err := id.WriteEvent(cm.EventUser, -7, 0x1122334455667788)
	if errors.Is(err, errors.ErrUnsupported) {
		if release := os.Getenv("RDMAVM_KERNEL_RELEASE"); release[0] >= '7' {
			t.Fatalf("WriteEvent on Linux %s = %v, want nil", release, err)
		}
		return
	}
	r.ok(err)
	if ev := r.want(r.client, id, cm.EventUser, -7); ev.Arg != 0x1122334455667788 {
		t.Errorf("Arg of USER = %#x, want 0x1122334455667788", ev.Arg)
	}
	r.ok(id.WriteEvent(cm.EventInternal, 0, 1))
	if ev := r.want(r.client, id, cm.EventInternal, 0); ev.Arg != 1 {
		t.Errorf("Arg of INTERNAL = %#x, want 1", ev.Arg)
	}
	if err := id.WriteEvent(cm.EventEstablished, 0, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("WriteEvent(ESTABLISHED) = %v, want EINVAL", err)
	}
	r.quiet(r.client, 50*time.Millisecond)
}
