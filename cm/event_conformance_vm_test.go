// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"purerdma/cm"
	"purerdma/verbs"
)

// TestNextWaitsForAnEvent: it returns when an event comes, and before that only when
// its context ends.
func TestNextWaitsForAnEvent(t *testing.T) {
	p := newRCPair(t)
	if _, err := p.server.Next(within(t, 50*time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without an event: %v", err)
	}
	got := make(chan *cm.Event, 1)
	go func() {
		ev, err := p.server.Next(within(t, 10*time.Second))
		if err != nil {
			t.Error(err)
		}
		got <- ev
	}()
	select {
	case ev := <-got:
		t.Fatalf("got %v before anything happened", ev)
	case <-time.After(100 * time.Millisecond):
	}
	p.must(p.active.Connect(&cm.ConnParam{}))
	if ev := <-got; ev == nil || ev.Type != cm.EventConnectRequest {
		t.Errorf("got %v", ev)
	}
}

// TestDestroyWaitsUntilEventsAreAcknowledged: of each ID its own.
func TestDestroyWaitsUntilEventsAreAcknowledged(t *testing.T) {
	p := newRCPair(t)
	p.must(p.active.Connect(&cm.ConnParam{}))
	ev, err := p.server.Next(within(t, 5*time.Second))
	p.must(err)
	p.must(p.active.Destroy(within(t, time.Second)))
	// The event is one of the listener, not of the ID that it brought.
	p.must(ev.ID.Destroy(within(t, time.Second)))
	err = p.listener.Destroy(within(t, 50*time.Millisecond))
	wantError(t, err, "destroy", os.ErrDeadlineExceeded, "RDMA_CM_EVENT_CONNECT_REQUEST")
	time.AfterFunc(50*time.Millisecond, ev.Ack)
	start := time.Now()
	p.must(p.listener.Destroy(within(t, 5*time.Second)))
	if took := time.Since(start); took < 40*time.Millisecond {
		t.Errorf("it waited only %v", took)
	}
}

// TestStatusOfEachKind: 0, a negative errno, the transport's reason, or -1 for what the
// library has found.
func TestStatusOfEachKind(t *testing.T) {
	p := newRCPair(t)
	status := func(ev *cm.Event, want int, cause error) {
		t.Helper()
		if ev.Status != want || (ev.Err() == nil) != (want == 0 && cause == nil) || cause != nil && !errors.Is(ev.Err(), cause) {
			t.Errorf("%v, %v; want status %d, %v", ev, ev.Err(), want, cause)
		}
	}
	id := newRCID(t, p.client)
	p.must(id.ResolveAddr(rcAddr(p.hosts[1].IPv4, 0), p.listener.LocalAddr(), 2*time.Second))
	status(p.next(p.client, id, cm.EventAddrResolved), 0, nil)
	p.must(id.ResolveRoute(2 * time.Second))
	status(p.next(p.client, id, cm.EventRouteResolved), 0, nil)

	lost := newRCID(t, p.client)
	p.must(lost.ResolveAddr(rcAddr(p.hosts[1].IPv4, 0), mustParse(neighbour(p.hosts[1].IPv4, 79, 1)), 200*time.Millisecond))
	status(p.next(p.client, lost, cm.EventAddrError), -int(syscall.ETIMEDOUT), syscall.ETIMEDOUT)

	p.withQP(p.active)
	status(p.requested(nil), 0, nil)
	p.withQP(p.passive)
	status(p.accepted(nil), 0, nil)
	p.must(p.active.Disconnect())
	status(p.next(p.server, p.passive, cm.EventDisconnected), 0, syscall.ECONNRESET)
	p.must(p.passive.Disconnect())
	status(p.next(p.client, p.active, cm.EventDisconnected), 0, syscall.ECONNRESET)

	p.active = id
	p.requested(&cm.ConnParam{})
	p.must(p.passive.Reject(nil))
	ev := p.next(p.client, id, cm.EventRejected)
	var rej *cm.RejectError
	if status(ev, cm.RejectConsumer, nil); !errors.As(ev.Err(), &rej) || rej.Reason != cm.RejectConsumer {
		t.Errorf("got %v", ev.Err())
	}
	nobody := newRCID(t, p.client)
	port := p.listener.LocalAddr()
	p.listener.Close()
	p.must(nobody.ResolveAddr(rcAddr(p.hosts[1].IPv4, 0), port, 2*time.Second))
	p.next(p.client, nobody, cm.EventAddrResolved)
	p.must(nobody.ResolveRoute(2 * time.Second))
	p.next(p.client, nobody, cm.EventRouteResolved)
	p.must(nobody.Connect(&cm.ConnParam{}))
	status(p.next(p.client, nobody, cm.EventRejected), cm.RejectInvalidServiceID, syscall.ECONNREFUSED)
}

// TestConnectErrorWhenTheQPCannotMove: the failure is an event of the active ID, with
// the library's status and cause, and the peer is refused.
func TestConnectErrorWhenTheQPCannotMove(t *testing.T) {
	p := newRCPair(t)
	qp := p.withQP(p.active)
	p.requested(nil)
	p.withQP(p.passive)
	p.must(qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
	p.must(p.passive.Accept(nil))
	ev := p.next(p.client, p.active, cm.EventConnectError)
	var ce *cm.ConnectError
	if ev.Status != -1 || !errors.As(ev.Err(), &ce) || ce.Err == nil || !errors.Is(ev.Err(), syscall.EINVAL) {
		t.Errorf("got %v: %v", ev, ev.Err())
	}
	if ev := p.next(p.server, p.passive, cm.EventRejected); ev.Status != cm.RejectConsumer {
		t.Errorf("the peer got %v", ev)
	}
}

// TestTheActiveSideMayRejectTheResponse: what it says reaches the other side.
func TestTheActiveSideMayRejectTheResponse(t *testing.T) {
	p := newRCPair(t)
	p.requested(&cm.ConnParam{QPNum: 0x4711})
	qp := p.withQP(p.passive)
	p.must(p.passive.Accept(nil))
	p.next(p.client, p.active, cm.EventConnectResponse)
	p.must(p.active.Reject([]byte("changed my mind")))
	ev := p.next(p.server, p.passive, cm.EventRejected)
	if ev.Status != cm.RejectConsumer || !strings.HasPrefix(string(ev.Conn.PrivateData), "changed my mind\x00") {
		t.Errorf("got %v, %q", ev, ev.Conn.PrivateData)
	}
	if qp.State() != verbs.QPErr {
		t.Errorf("the QP of a rejected ID is in %v", qp.State())
	}
}

// TestStaleConnection: a QP number that has a connection already is refused a second.
func TestStaleConnection(t *testing.T) {
	p := newRCPair(t)
	p.connected()
	again := p.routed(p.client)
	p.must(again.Connect(&cm.ConnParam{QPNum: p.active.QP().Num()}))
	for {
		ev, err := p.client.Next(within(t, 5*time.Second))
		p.must(err)
		ev.Ack()
		if ev.ID == p.active && ev.Type == cm.EventDisconnected {
			continue // the peer takes the old connection for dead
		}
		var rej *cm.RejectError
		if ev.ID != again || ev.Type != cm.EventRejected || !errors.As(ev.Err(), &rej) || rej.Reason != cm.RejectStaleConn {
			t.Errorf("got %v: %v", ev, ev.Err())
		}
		return
	}
}

// TestTimewaitExit: it comes when both sides have disconnected and the wire has had
// time to empty.
func TestTimewaitExit(t *testing.T) {
	p := newRCPair(t)
	p.connected()
	qpn := p.active.QP().Num()
	p.disconnected()
	start := time.Now()
	p.next(p.client, p.active, cm.EventTimewaitExit)
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("it came after %v", took)
	}
	p.next(p.server, p.passive, cm.EventTimewaitExit)
	// The number may be used again.
	again := p.routed(p.client)
	p.must(again.Connect(&cm.ConnParam{QPNum: qpn}))
	if ev := p.next(p.server, nil, cm.EventConnectRequest); ev.Conn.QPNum != qpn {
		t.Errorf("requested with QP %d", ev.Conn.QPNum)
	}
}

// TestANeighboursNewMACIsAHint: UNREACHABLE on a connection that stands leaves it
// standing.
func TestANeighboursNewMACIsAHint(t *testing.T) {
	p := newRCPair(t)
	p.connected()
	link, err := netlink.LinkByName(p.hosts[1].Interface)
	p.must(err)
	neigh := &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: syscall.AF_INET, State: netlink.NUD_PERMANENT,
		IP: p.hosts[0].IPv4.AsSlice(), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 0x77}}
	p.must(netlink.NeighSet(neigh))
	ev, err := p.client.Next(within(t, 5*time.Second))
	// Without the entry the kernel asks the network again.
	p.must(netlink.NeighDel(neigh))
	p.must(err)
	ev.Ack()
	var ue *cm.UnreachableError
	if ev.ID != p.active || ev.Type != cm.EventUnreachable || !errors.As(ev.Err(), &ue) || !ue.Timeout() {
		t.Fatalf("got %v: %v", ev, ev.Err())
	}
	if p.active.State() != cm.StateEstablished || p.active.QP().State() != verbs.QPRTS {
		t.Errorf("the connection is %v, its QP is in %v", p.active.State(), p.active.QP().State())
	}
	p.must(p.active.Disconnect())
	for { // it may come again
		ev, err := p.server.Next(within(t, 5*time.Second))
		p.must(err)
		ev.Ack()
		if ev.Type == cm.EventDisconnected {
			break
		}
	}
}

// TestMigrationTakesPendingEvents: they come on the new channel, in their order, and
// what follows comes there, too.
func TestMigrationTakesPendingEvents(t *testing.T) {
	p := newRCPair(t)
	p.withQP(p.active)
	p.requested(nil)
	p.withQP(p.passive)
	p.must(p.passive.Accept(nil))
	p.next(p.client, p.active, cm.EventEstablished)
	p.must(p.active.Disconnect())
	time.Sleep(200 * time.Millisecond) // ESTABLISHED and DISCONNECTED wait, unfetched
	other := newRCChannel(t)
	p.must(p.passive.Migrate(other))
	if p.passive.Channel() != other {
		t.Error("the ID is not where it was moved to")
	}
	p.next(other, p.passive, cm.EventEstablished)
	p.next(other, p.passive, cm.EventDisconnected)
	p.must(p.passive.Disconnect())
	p.next(p.client, p.active, cm.EventDisconnected)
	p.next(other, p.passive, cm.EventTimewaitExit)
	p.nothing(p.server, 10*time.Millisecond)
	// Its old channel has nothing to do with it any more.
	p.server.Close()
	if _, err := p.passive.QP().Query(); err != nil {
		t.Errorf("closing the channel that it has left: %v", err)
	}
}

// TestEveryIDHasItsOwnEvents: many IDs on one channel, each gets what is meant for it.
func TestEveryIDHasItsOwnEvents(t *testing.T) {
	p := newRCPair(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// Odd ones are refused, even ones let in.
	verdict := map[*cm.ID]cm.EventType{}
	ids := make([]*cm.ID, 6)
	for i := range ids {
		ids[i] = p.routed(p.client)
		p.withQP(ids[i])
	}
	for i, id := range ids {
		p.active = id
		p.requested(nil)
		if i%2 == 1 {
			verdict[p.active] = cm.EventRejected
			p.must(p.passive.Reject(nil))
			continue
		}
		verdict[p.active] = cm.EventEstablished
		p.withQP(p.passive)
		p.must(p.passive.Accept(nil))
	}
	for len(verdict) > 0 {
		ev, err := p.client.Next(ctx)
		p.must(err)
		ev.Ack()
		if want, ok := verdict[ev.ID]; !ok || ev.Type != want {
			t.Errorf("got %v, want %v", ev, want)
		}
		delete(verdict, ev.ID)
	}
}
