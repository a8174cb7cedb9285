// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// link is a connection from the second host to the first.
type link struct {
	hosts          []vmtest.Host
	client, server *cm.Conn
	local, remote  *verbs.MR
	events         *verbs.AsyncEvents // of the client's device
}

// newLink connects, with a buffer of 64 bytes on each side. The client may write to the server's buffer.
func newLink(t *testing.T) *link {
	t.Helper()
	l := &link{hosts: vmtest.Hosts(t, 2)}
	ln, err := cm.Listen(within(t), "tcp", netip.AddrPortFrom(l.hosts[0].IPv4, 0).String())
	if err != nil {
		t.Fatalf("cm.Listen: %v", err)
	}
	defer ln.Close()
	accepted := make(chan error, 1)
	go func() {
		req, err := ln.Accept(within(t))
		if err == nil {
			l.server, err = req.Accept(within(t), nil, nil)
		}
		accepted <- err
	}()
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(l.hosts[1].IPv4, 0))}
	if l.client, err = d.Dial(within(t), "tcp", ln.Addr().String()); err != nil {
		t.Fatalf("Dialer.Dial: %v", err)
	}
	t.Cleanup(func() { l.client.Close() })
	if err := <-accepted; err != nil {
		t.Fatalf("Request.Accept: %v", err)
	}
	t.Cleanup(func() { l.server.Close() })
	if l.local, err = l.client.Alloc(64, verbs.LocalWrite); err != nil {
		t.Fatalf("Conn.Alloc: %v", err)
	}
	if l.remote, err = l.server.Alloc(64, verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		t.Fatalf("Conn.Alloc: %v", err)
	}
	if l.events, err = l.client.Device().AsyncEvents(); err != nil {
		t.Fatalf("Device.AsyncEvents: %v", err)
	}
	t.Cleanup(func() { l.events.Close() })
	return l
}

// write makes the client write one byte into the server's memory.
func (l *link) write(ctx context.Context) error {
	return l.client.Write(ctx, l.local.Slice(0, 1), l.remote.Remote())
}

// wantFatal waits for the event QP_FATAL of the client's QP.
func (l *link) wantFatal(t *testing.T) {
	t.Helper()
	ev, err := l.events.Next(within(t))
	if err != nil || ev.Type != verbs.AsyncQPFatal || ev.QP != l.client.QP() {
		t.Errorf("AsyncEvents.Next() = %+v, %v, want QP_FATAL of QP %p", ev, err, l.client.QP())
	}
}

// wantFlushed checks that the next completion of a receive is a flush of the receive id.
func wantFlushed(t *testing.T, c *cm.Conn, id uint64) {
	t.Helper()
	var wc [1]verbs.WC
	n, err := c.QP().RecvCQ().Wait(within(t), wc[:])
	if n != 1 || err != nil || wc[0].ID != id || wc[0].Status != verbs.WCWRFlushErr {
		t.Errorf("CQ.Wait = %d, %v with %+v, want a flush of receive %d", n, err, wc[0], id)
	}
}

// TestFailNext checks the status and the reason of each error of the adapter (enum erdma_wc_status and enum
// erdma_vendor_err of the kernel's erdma_hw.h).
func TestFailNext(t *testing.T) {
	for code, want := range map[int]verbs.WCError{
		1: {Status: verbs.WCGeneralErr}, 2: {Status: verbs.WCGeneralErr, VendorErr: 1},
		3: {Status: verbs.WCRemAccessErr, VendorErr: 2}, 4: {Status: verbs.WCRemAccessErr, VendorErr: 3},
		5: {Status: verbs.WCRemAccessErr, VendorErr: 4}, 6: {Status: verbs.WCRemAccessErr, VendorErr: 5},
		7: {Status: verbs.WCRemAccessErr, VendorErr: 6}, 8: {Status: verbs.WCLocQPOpErr, VendorErr: 0x20},
		9: {Status: verbs.WCGeneralErr, VendorErr: 0x21}, 10: {Status: verbs.WCLocAccessErr, VendorErr: 0x30},
		11: {Status: verbs.WCLocAccessErr, VendorErr: 0x31}, 12: {Status: verbs.WCLocAccessErr, VendorErr: 0x32},
		13: {Status: verbs.WCLocAccessErr, VendorErr: 0x33}, 14: {Status: verbs.WCLocAccessErr, VendorErr: 0x34},
		16: {Status: verbs.WCRetryExcErr},
	} {
		l := newLink(t)
		l.hosts[1].Fault(t, "fail-next", l.client.QP().Num(), code)
		err := l.write(within(t))
		var got *verbs.WCError
		if !errors.As(err, &got) || got.Status != want.Status || got.VendorErr != want.VendorErr {
			t.Errorf("Conn.Write with status %d = %v, want status %v and reason %#x", code, err, want.Status, want.VendorErr)
		}
		l.wantFatal(t)
	}
}

// TestFailQP checks that the failure of a QP sends an event, and that the receives of both QPs are flushed.
func TestFailQP(t *testing.T) {
	l := newLink(t)
	for i, c := range []*cm.Conn{l.client, l.server} {
		mr, err := c.Alloc(64, verbs.LocalWrite)
		if err != nil {
			t.Fatalf("Conn.Alloc: %v", err)
		}
		if err := c.PostRecv(uint64(7+i), mr.Slice(0, 64)); err != nil {
			t.Fatalf("Conn.PostRecv: %v", err)
		}
	}
	l.hosts[1].Fault(t, "fail-qp", l.client.QP().Num())
	l.wantFatal(t)
	wantFlushed(t, l.client, 7)
	wantFlushed(t, l.server, 8)
	if err := l.write(within(t)); err == nil {
		t.Error("Conn.Write after the failure of the QP = nil, want an error")
	}
}

// TestSilent checks that a request of a silent adapter waits, and succeeds when the adapter is not silent any more.
func TestSilent(t *testing.T) {
	l := newLink(t)
	l.hosts[1].Fault(t, "silent", 1)
	t.Cleanup(func() { l.hosts[1].Fault(t, "silent", 0) })
	l.local.Bytes()[0] = 5
	written := make(chan error, 1)
	go func() { written <- l.write(within(t)) }()
	select {
	case err := <-written:
		t.Fatalf("Conn.Write with a silent adapter = %v, want a wait", err)
	case <-time.After(100 * time.Millisecond):
	}
	l.hosts[1].Fault(t, "silent", 0)
	if err := <-written; err != nil || l.remote.Bytes()[0] != 5 {
		t.Errorf("Conn.Write = %v, the peer's memory has %d, want 5", err, l.remote.Bytes()[0])
	}
}

// TestNoSuchFault checks that invalid faults are rejected.
func TestNoSuchFault(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	for _, words := range [][]any{{"explode"}, {"fail-qp", 0xfffff}, {"silent"}} {
		if err := h.TryFault(words...); err == nil {
			t.Errorf("Host.TryFault(%v) = nil, want an error", words)
		}
	}
}
