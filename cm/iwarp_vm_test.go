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

// These tests check the differences of iWARP (rdmavm -driver siw and erdma). The table in test/run
// lists the exceptions of the other tests.

// TestIWARPConnection checks the order and the contents of the events in a connection's life.
func TestIWARPConnection(t *testing.T) {
	r := newRig(t)
	client := r.withQP(r.resolved())
	server := r.withQP(r.requested(client, &cm.ConnParam{PrivateData: []byte("hello"), ResponderResources: 3, InitiatorDepth: 2}))
	r.ok(server.Accept(&cm.ConnParam{PrivateData: bytes.Repeat([]byte{7}, 251), ResponderResources: 2, InitiatorDepth: 1}))
	if s := server.QP().State(); s != verbs.QPRTS {
		t.Errorf("QP state after Accept = %v, want RTS", s)
	}
	ev := r.want(r.client, client, cm.EventEstablished, 0)
	if !bytes.Equal(ev.Conn.PrivateData, bytes.Repeat([]byte{7}, 251)) || client.QP().State() != verbs.QPRTS {
		t.Errorf("ESTABLISHED has %d bytes of private data, QP in %v, want 251, RTS", len(ev.Conn.PrivateData), client.QP().State())
	}
	r.want(r.server, server, cm.EventEstablished, 0)
	r.exchange(client, server) // the connecting side sends first
	r.exchange(server, client)
	// siw negotiates the depths. A side serves as many READs as the other side issues.
	served := uint8(1)
	if vmtest.Driver() == "erdma" {
		served = 3
	}
	active, err := client.QP().Query()
	r.ok(err)
	passive, err := server.QP().Query()
	r.ok(err)
	// outgoing and incoming READs of both sides
	depths := [4]uint8{active.MaxRdAtomic, active.MaxDestRdAtomic, passive.MaxRdAtomic, passive.MaxDestRdAtomic}
	want := [4]uint8{2, served, 1, 2}
	if vmtest.Driver() == "erdma" && strings.HasPrefix(os.Getenv("RDMAVM_KERNEL_RELEASE"), "6.1.") {
		want = [4]uint8{} // The driver does not return them.
	}
	if active.State != verbs.QPRTS || depths != want {
		t.Errorf("Query() = %+v and %+v, want RTS and the depths %v", active, passive, want)
	}

	r.ok(client.Disconnect())
	r.want(r.client, client, cm.EventDisconnected, 0)
	r.want(r.server, server, cm.EventDisconnected, 0)
	r.ok(server.Disconnect())
	for _, id := range []*cm.ID{server, client} {
		if id.QP().State() != verbs.QPErr || id.State() != cm.StateDisconnected {
			t.Errorf("after the end: QP in %v, ID in %v, want ERR, disconnected", id.QP().State(), id.State())
		}
	}
	// There is no TIMEWAIT_EXIT.
	r.quiet(r.client, time.Second)
	r.quiet(r.server, 10*time.Millisecond)
}

// TestIWARPWithoutQP connects an ID without a QP. It is established without Establish. The
// program informs its own QP with SetState.
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
		t.Errorf("Connect with an unknown QP number = %v, want EINVAL", err)
	}
	server := r.withQP(r.requested(client, &cm.ConnParam{QPNum: qp.Num(), InitiatorDepth: 1}))
	r.ok(server.Accept(nil))
	r.want(r.client, client, cm.EventEstablished, 0)
	r.want(r.server, server, cm.EventEstablished, 0)
	var se *verbs.QPStateError
	if _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); !errors.As(err, &se) || se.State != verbs.QPInit {
		t.Errorf("PostSend before SetState = %v, want a QPStateError", err)
	}
	qp.SetState(verbs.QPRTS)
	in := alloc(t, server.QP().PD(), 64)
	receive(t, server.QP(), in)
	if _, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: []byte("mine")}}); err != nil {
		t.Fatalf("PostSend: %v", err)
	}
	completion(t, qp.SendCQ())
	if wc := completion(t, server.QP().RecvCQ()); string(in.Bytes()[:wc.ByteLen]) != "mine" {
		t.Errorf("received %q, want \"mine\"", in.Bytes()[:wc.ByteLen])
	}
	client.Close()
	r.want(r.server, server, cm.EventDisconnected, 0)
}

func TestIWARPRejected(t *testing.T) {
	reset := -int(syscall.ECONNRESET)
	check := func(t *testing.T, r *rig, id *cm.ID, data []byte) {
		t.Helper()
		ev, err := r.client.Next(within(t, 10*time.Second))
		r.ok(err)
		ev.Ack()
		if data == nil && ev.ID == id && lostRejection(ev) {
			return
		}
		if ev.ID != id || ev.Type != cm.EventRejected || ev.Status != reset {
			t.Fatalf("Next() = %v, want REJECTED with -ECONNRESET of %v", ev, id)
		}
		var rej *cm.RejectError
		err = ev.Err()
		if !errors.As(err, &rej) || !errors.Is(err, syscall.ECONNRESET) || !errors.Is(err, syscall.ECONNREFUSED) ||
			rej.Transport != verbs.TransportIWARP || rej.Reason != 0 || !bytes.Equal(rej.PrivateData, data) {
			t.Errorf("Err() = %v with %+v, want a RejectError with ECONNRESET and %q", err, rej, data)
		}
	}
	t.Run("by the application", func(t *testing.T) {
		for _, data := range [][]byte{nil, []byte("no"), bytes.Repeat([]byte("no"), 125)} {
			r := newRig(t)
			client := r.withQP(r.resolved())
			r.ok(r.requested(client, nil).Reject(data))
			check(t, r, client, data)
			if client.QP().State() != verbs.QPErr {
				t.Errorf("QP state after the rejection = %v, want ERR", client.QP().State())
			}
		}
	})
	t.Run("by closing the request", func(t *testing.T) {
		r := newRig(t)
		client := r.withQP(r.resolved())
		r.requested(client, nil).Close()
		check(t, r, client, nil)
	})
	t.Run("by closing the listener", func(t *testing.T) {
		r := newRig(t)
		client := r.withQP(r.resolved())
		r.queued(client)
		r.listener.Close()
		check(t, r, client, nil)
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
		check(t, r, second, nil)
	})
	t.Run("no listener", func(t *testing.T) {
		r := newRig(t)
		client := r.withQP(r.resolved())
		addr := r.listener.LocalAddr()
		r.listener.Close()
		time.Sleep(50 * time.Millisecond)
		err := client.Connect(nil)
		if vmtest.Driver() == "erdma" { // it connects the TCP stream after CONNECT
			r.ok(err)
			r.want(r.client, client, cm.EventRejected, reset)
			return
		}
		var rej *cm.RejectError
		wantError(t, err, "connect", syscall.ECONNREFUSED, addr.String(), "no listener")
		if !errors.As(err, &rej) || rej.Transport != verbs.TransportIWARP || client.State() != cm.StateRouteResolved {
			t.Errorf("RejectError = %+v in state %v, want iWARP, route resolved", rej, client.State())
		}
		r.quiet(r.client, 50*time.Millisecond)
	})
}

// TestIWARPConnectError makes connecting the QP fail when the answer comes. The peer's
// connection manager does not get the failure.
func TestIWARPConnectError(t *testing.T) {
	r := newRig(t)
	client := r.withQP(r.resolved())
	server := r.withQP(r.requested(client, nil))
	r.ok(client.QP().Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
	r.ok(server.Accept(&cm.ConnParam{PrivateData: []byte("welcome")}))
	ev := r.want(r.client, client, cm.EventConnectError, -int(syscall.EINVAL))
	if err := ev.Err(); !errors.Is(err, syscall.EINVAL) || ev.Conn.PrivateData != nil || client.State() != cm.StateFailed {
		t.Errorf("CONNECT_ERROR: Err() = %v, private data %q, state %v, want EINVAL, none, failed", err, ev.Conn.PrivateData, client.State())
	}
	r.want(r.server, server, cm.EventEstablished, 0)
}

// TestIWARPPeerGone accepts the request of a peer that has already left.
func TestIWARPPeerGone(t *testing.T) {
	ln, d := ends(t)
	r, err := d.Resolve(within(t, 5*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	if _, err := r.Connect(within(t, 200*time.Millisecond), nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Connect() = %v, want DeadlineExceeded", err)
	}
	req, err := ln.Accept(within(t, 5*time.Second))
	if err != nil {
		t.Fatalf("Accept: %v", err)
	}
	// The peer's kernel releases the connection after 10 seconds. The local kernel reports it
	// at the next command after that.
	time.Sleep(11 * time.Second)
	_, err = req.Accept(within(t, 5*time.Second), nil, nil)
	var gone *cm.DisconnectedError
	if !errors.As(err, &gone) || !errors.Is(err, syscall.ECONNABORTED) {
		t.Errorf("Accept() = %v, want a DisconnectedError with ECONNABORTED", err)
	}
}

// TestIWARPLostSYN loses the SYN of the TCP connection. The context ends the wait, and not the
// kernel.
func TestIWARPLostSYN(t *testing.T) {
	ln, d := ends(t)
	hosts := vmtest.Hosts(t, 2)
	r, err := d.Resolve(within(t, 5*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	undo := hosts[0].Lose(t)
	// The kernel would retry for minutes.
	_, err = r.Connect(within(t, 200*time.Millisecond), nil, nil)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Connect() = %v, want DeadlineExceeded", err)
	}
	// The next SYN arrives, and its connection is destroyed.
	undo()
	served0 := make(chan struct{})
	go func() { echo(ln); close(served0) }()
	served(t, d, ln.Addr())
	ln.Close()
	<-served0
}

// TestIWARPLinkDown takes an interface down. The siw of Linux 6.1 ends its connections. Later
// versions, including Debian's 6.12, leave them to TCP (siw_netdev_event).
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
		t.Errorf("QP state after DISCONNECTED = %v, want ERR", client.QP().State())
	}
}

// TestSlowIWARPUnreachable connects to a listener that does not fetch its requests. siw waits
// 10 seconds for the answer.
func TestSlowIWARPUnreachable(t *testing.T) {
	longtest.Need(t)
	r := newRig(t)
	client := r.withQP(r.resolved())
	start := time.Now()
	r.ok(client.Connect(nil))
	ev := r.want(r.client, client, cm.EventUnreachable, -int(syscall.ETIMEDOUT))
	var ue *cm.UnreachableError
	if !errors.As(ev.Err(), &ue) || !ue.Timeout() || client.State() != cm.StateFailed || client.QP().State() != verbs.QPErr {
		t.Errorf("Err() = %v, state %v, QP in %v, want a timeout, failed, ERR", ev.Err(), client.State(), client.QP().State())
	}
	if took := time.Since(start); took < 9*time.Second {
		t.Errorf("UNREACHABLE came after %v, want about 10s", took)
	}
}
