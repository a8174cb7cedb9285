// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"purerdma/cm"
	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// These tests show what is different on iWARP: rdmavm -driver siw. The others'
// table of exceptions is that of test/run.

// TestIWARPConnection: the events of a connection's life, and what they carry.
func TestIWARPConnection(t *testing.T) {
	r := newRig(t)
	client := r.withQP(r.resolved())
	server := r.withQP(r.requested(client, &cm.ConnParam{PrivateData: []byte("hello"), ResponderResources: 3, InitiatorDepth: 2}))
	r.ok(server.Accept(&cm.ConnParam{PrivateData: bytes.Repeat([]byte{7}, 251), ResponderResources: 2, InitiatorDepth: 1}))
	if s := server.QP().State(); s != verbs.QPRTS {
		t.Errorf("accepted with a QP in %v", s)
	}
	ev := r.want(r.client, client, cm.EventEstablished, 0)
	if !bytes.Equal(ev.Conn.PrivateData, bytes.Repeat([]byte{7}, 251)) || client.QP().State() != verbs.QPRTS {
		t.Errorf("%d bytes, the QP is in %v", len(ev.Conn.PrivateData), client.QP().State())
	}
	r.want(r.server, server, cm.EventEstablished, 0)
	r.exchange(client, server) // who has connected sends first
	r.exchange(server, client)
	// The depths are negotiated: a side serves as many READs as the other issues.
	active, err := client.QP().Query()
	r.ok(err)
	passive, err := server.QP().Query()
	r.ok(err)
	if active.State != verbs.QPRTS || active.MaxRdAtomic != 2 || active.MaxDestRdAtomic != 1 || passive.MaxRdAtomic != 1 || passive.MaxDestRdAtomic != 2 {
		t.Errorf("active  %+v\npassive %+v", active, passive)
	}

	r.ok(client.Disconnect())
	r.want(r.client, client, cm.EventDisconnected, 0)
	r.want(r.server, server, cm.EventDisconnected, 0)
	r.ok(server.Disconnect())
	for _, id := range []*cm.ID{server, client} {
		if id.QP().State() != verbs.QPErr || id.State() != cm.StateDisconnected {
			t.Errorf("after the end: QP %v, ID %v", id.QP().State(), id.State())
		}
	}
	// There is no TIMEWAIT_EXIT.
	r.quiet(r.client, time.Second)
	r.quiet(r.server, 10*time.Millisecond)
}

// TestIWARPWithoutQP: an ID that knows no QP is established without Establish, and
// its user says so to his QP.
func TestIWARPWithoutQP(t *testing.T) {
	r := newRig(t)
	client := r.resolved()
	pd, err := client.Device().AllocPD()
	r.ok(err)
	defer pd.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{})
	r.ok(err)
	defer qp.Close()
	attr, mask, err := client.InitQPAttr(verbs.QPInit)
	r.ok(err)
	r.ok(qp.Modify(&attr, mask))
	if err := client.Connect(&cm.ConnParam{QPNum: qp.Num() ^ 0x4711}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("with the number of no QP: %v", err)
	}
	server := r.withQP(r.requested(client, &cm.ConnParam{QPNum: qp.Num(), InitiatorDepth: 1}))
	r.ok(server.Accept(nil))
	r.want(r.client, client, cm.EventEstablished, 0)
	r.want(r.server, server, cm.EventEstablished, 0)
	var se *verbs.QPStateError
	if _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); !errors.As(err, &se) || se.State != verbs.QPInit {
		t.Errorf("a send before SetState: %v", err)
	}
	qp.SetState(verbs.QPRTS)
	in := alloc(t, server.QP().PD(), 64)
	receive(t, server.QP(), in)
	if _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: []byte("mine")}}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	completion(t, qp.SendCQ())
	if wc := completion(t, server.QP().RecvCQ()); string(in.Bytes()[:wc.ByteLen]) != "mine" {
		t.Errorf("got %q", in.Bytes()[:wc.ByteLen])
	}
	client.Close()
	r.want(r.server, server, cm.EventDisconnected, 0)
}

func TestIWARPRejected(t *testing.T) {
	reset := -int(syscall.ECONNRESET)
	check := func(t *testing.T, ev *cm.Event, data []byte) {
		t.Helper()
		var rej *cm.RejectError
		err := ev.Err()
		if !errors.As(err, &rej) || !errors.Is(err, syscall.ECONNRESET) || !errors.Is(err, syscall.ECONNREFUSED) ||
			rej.Transport != verbs.TransportIWARP || rej.Reason != 0 || !bytes.Equal(rej.PrivateData, data) {
			t.Errorf("got %v: %+v", err, rej)
		}
	}
	t.Run("by the application", func(t *testing.T) {
		for _, data := range [][]byte{nil, []byte("no"), bytes.Repeat([]byte("no"), 125)} {
			r := newRig(t)
			client := r.withQP(r.resolved())
			r.ok(r.requested(client, nil).Reject(data))
			check(t, r.want(r.client, client, cm.EventRejected, reset), data)
			if client.QP().State() != verbs.QPErr {
				t.Errorf("the QP is in %v", client.QP().State())
			}
		}
	})
	t.Run("by closing the request", func(t *testing.T) {
		r := newRig(t)
		client := r.withQP(r.resolved())
		r.requested(client, nil).Close()
		check(t, r.want(r.client, client, cm.EventRejected, reset), nil)
	})
	t.Run("by closing the listener", func(t *testing.T) {
		r := newRig(t)
		client := r.withQP(r.resolved())
		r.queued(client)
		r.listener.Close()
		check(t, r.want(r.client, client, cm.EventRejected, reset), nil)
	})
	t.Run("by a full backlog", func(t *testing.T) {
		r := newRig(t)
		r.listener.Close()
		r.listener = r.newID(r.server)
		r.ok(r.listener.Bind(cm.AddrFrom(netip.AddrPortFrom(r.hosts[0].IPv4, 0))))
		r.ok(r.listener.Listen(1))
		first, second := r.withQP(r.resolved()), r.withQP(r.resolved())
		r.queued(first)
		r.ok(second.Connect(nil))
		check(t, r.want(r.client, second, cm.EventRejected, reset), nil)
	})
	t.Run("nobody listens", func(t *testing.T) {
		r := newRig(t)
		client := r.withQP(r.resolved())
		addr := r.listener.LocalAddr()
		r.listener.Close()
		time.Sleep(50 * time.Millisecond)
		err := client.Connect(nil)
		var rej *cm.RejectError
		wantError(t, err, "connect", syscall.ECONNREFUSED, addr.String(), "nobody listens")
		if !errors.As(err, &rej) || rej.Transport != verbs.TransportIWARP || client.State() != cm.StateRouteResolved {
			t.Errorf("%+v, the ID is %v", rej, client.State())
		}
		r.quiet(r.client, 50*time.Millisecond)
	})
}

// TestIWARPConnectError: the QP cannot be connected when the answer comes. The
// peer does not learn of it from the connection manager.
func TestIWARPConnectError(t *testing.T) {
	r := newRig(t)
	client := r.withQP(r.resolved())
	server := r.withQP(r.requested(client, nil))
	r.ok(client.QP().Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
	r.ok(server.Accept(&cm.ConnParam{PrivateData: []byte("welcome")}))
	ev := r.want(r.client, client, cm.EventConnectError, -int(syscall.EINVAL))
	if err := ev.Err(); !errors.Is(err, syscall.EINVAL) || ev.Conn.PrivateData != nil || client.State() != cm.StateFailed {
		t.Errorf("got %v, %q, the ID is %v", err, ev.Conn.PrivateData, client.State())
	}
	r.want(r.server, server, cm.EventEstablished, 0)
}

// TestIWARPPeerGone: the peer leaves before its request is accepted.
func TestIWARPPeerGone(t *testing.T) {
	ln, d := ends(t)
	r, err := d.Resolve(within(t, 5*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	if _, err := r.Connect(within(t, 200*time.Millisecond), nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	req, err := ln.Accept(within(t, 5*time.Second))
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	// Its kernel lets go of the connection after 10 seconds, ours says so when we
	// ask it then.
	time.Sleep(11 * time.Second)
	_, err = req.Accept(within(t, 5*time.Second), nil, nil)
	var gone *cm.DisconnectedError
	if !errors.As(err, &gone) || !errors.Is(err, syscall.ECONNABORTED) {
		t.Errorf("got %v", err)
	}
}

// TestIWARPLostSYN: the TCP connection does not come about, and the context ends
// the wait, not the kernel.
func TestIWARPLostSYN(t *testing.T) {
	ln, d := ends(t)
	hosts := vmtest.Hosts(t, 2)
	r, err := d.Resolve(within(t, 5*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	undo := hosts[0].Lose(t)
	// The kernel would go on for minutes.
	_, err = r.Connect(within(t, 200*time.Millisecond), nil, nil)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	// The next SYN gets through, and what it connects is destroyed.
	undo()
	served0 := make(chan struct{})
	go func() { echo(ln); close(served0) }()
	served(t, d, ln.Addr())
	ln.Close()
	<-served0
}

// TestIWARPLinkDown: siw of Linux 6.1 ends the connections of an interface that goes
// down. Later ones, Debian's 6.12 among them, leave them to TCP (siw_netdev_event).
func TestIWARPLinkDown(t *testing.T) {
	vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	h, _ := vmtest.Bond(t)
	r := rigOn(t, h, h, cm.IDConfig{})
	server, client := r.connected()
	link, err := netlink.LinkByName(h.Interface)
	r.ok(err)
	r.ok(netlink.LinkSetDown(link))
	if !strings.HasPrefix(os.Getenv("RDMAVM_KERNEL_RELEASE"), "6.1.") {
		r.quiet(r.client, 2*time.Second)
		return
	}
	r.want(r.client, client, cm.EventDisconnected, 0)
	r.want(r.server, server, cm.EventDisconnected, 0)
	if client.QP().State() != verbs.QPErr {
		t.Errorf("the QP is in %v", client.QP().State())
	}
}

// TestSlowIWARPUnreachable: a listener that does not look at its requests. siw
// waits 10 seconds for the answer.
func TestSlowIWARPUnreachable(t *testing.T) {
	longtest.Need(t)
	r := newRig(t)
	client := r.withQP(r.resolved())
	start := time.Now()
	r.ok(client.Connect(nil))
	ev := r.want(r.client, client, cm.EventUnreachable, -int(syscall.ETIMEDOUT))
	var ue *cm.UnreachableError
	if !errors.As(ev.Err(), &ue) || !ue.Timeout() || client.State() != cm.StateFailed || client.QP().State() != verbs.QPErr {
		t.Errorf("%v; the ID is %v, the QP %v", ev.Err(), client.State(), client.QP().State())
	}
	if took := time.Since(start); took < 9*time.Second {
		t.Errorf("it took %v", took)
	}
}
