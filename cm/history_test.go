// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/verbs"
)

// wantHistory checks that a History contains entries in this order, and that its times do not go back. Each
// of want has an entry's event, object and the start of its status.
func wantHistory(t *testing.T, name string, h inflight.History, want ...[3]string) {
	t.Helper()
	rest := h.Entries
	for _, w := range want {
		i := slices.IndexFunc(rest, func(e inflight.HistoryEntry) bool {
			return e.Event == w[0] && e.Object == w[1] && strings.HasPrefix(e.Status, w[2])
		})
		if i < 0 {
			t.Errorf("%s =\n%vwant the entry %q", name, h, w)
			return
		}
		rest = rest[i+1:]
	}
	for i := 1; i < len(h.Entries); i++ {
		if h.Entries[i].Time.Before(h.Entries[i-1].Time) {
			t.Errorf("%s =\n%vwant the order of the times", name, h)
		}
	}
	if n := len(h.Entries); n > 0 && h.Time.Before(h.Entries[n-1].Time) {
		t.Errorf("%s: Time = %v, want a time after the entries", name, h.Time)
	}
}

// TestHistory reads the History of both sides of a connection that connects, sends, fails and closes.
func TestHistory(t *testing.T) {
	onAnyKernel(t, historyOfAConnection)
	onIWARP(t, historyOfAConnection)
}

func historyOfAConnection(t *testing.T, host *verbs.Host, server, client netip.Addr) {
	ctx := within(t, time.Minute)
	receive := &inflight.ReceiveConfig{Size: 1024, Depth: 8}
	ln := listenOn(t, cm.ListenConfig{Host: host, Receive: receive, KeepAlive: -1}, netip.AddrPortFrom(server, 0).String())
	defer ln.Close()
	var table *verbs.MR
	accepted := acceptOne(ctx, t, ln, func(req *cm.Request) (_ *cm.ConnParam, err error) {
		table, err = req.Alloc(64, verbs.LocalWrite|verbs.RemoteWrite)
		return nil, err
	})
	d := &cm.Dialer{Host: host, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(client, 0)), KeepAlive: -1}
	conn := ok(d.Dial(ctx, "tcp", ln.Addr().String()))(t)
	defer conn.Close()
	peer := accepted()
	defer peer.Close()
	wantHistory(t, "History() of a new connection", conn.History(),
		[3]string{"call", "resolve", "state resolving the address"},
		[3]string{"event", "RDMA_CM_EVENT_ADDR_RESOLVED", "state address resolved"},
		[3]string{"call", "resolve the route", "state resolving the route"},
		[3]string{"event", "RDMA_CM_EVENT_ROUTE_RESOLVED", "state route resolved"},
		[3]string{"call", "connect"},
		[3]string{"event", "RDMA_CM_EVENT_ESTABLISHED", "state established"})

	mine := ok(conn.Alloc(64, verbs.LocalWrite))(t)
	for i := range 3 {
		if err := conn.Send(ctx, mine.Slice(0, 10+i)); err != nil {
			t.Fatalf("Send: %v", err)
		}
		ok(peer.Receive(ctx))(t).Free()
	}
	wantHistory(t, "History() of the sender", conn.History(),
		[3]string{"event", "RDMA_CM_EVENT_ESTABLISHED", "state established"},
		[3]string{"post", "request 0", "SEND, 10 bytes"},
		[3]string{"complete", "request 0", "success"},
		[3]string{"post", "request 2", "SEND, 12 bytes"},
		[3]string{"complete", "request 2", "success"})
	wantHistory(t, "History() of the receiver", peer.History(),
		[3]string{"event", "RDMA_CM_EVENT_CONNECT_REQUEST", "state connect request received"},
		[3]string{"receive", "message 0", "10 bytes"},
		[3]string{"receive", "message 2", "12 bytes"})

	remote := table.Remote()
	remote.RKey ^= 0xff00
	var err error
	for end := time.Now().Add(20 * time.Second); err == nil; { // on iWARP a WRITE may succeed first
		if err = conn.Write(ctx, mine.Slice(0, 64), remote); time.Now().After(end) {
			t.Fatalf("Write with a wrong key = %v, want an error", err)
		}
	}
	posted := [3]string{"post", fmt.Sprintf("request %d", conn.Stats().Operations.Started-1), "WRITE, 64 bytes"}
	failed, _ := errors.AsType[*verbs.WCError](err)
	overIWARP := conn.Device().Transport() == verbs.TransportIWARP // the peer may disconnect first
	if !overIWARP && (failed == nil || failed.Status != verbs.WCRemAccessErr) {
		t.Fatalf("Write with a wrong key = %v, want the status %v", err, verbs.WCRemAccessErr)
	}
	broken, ok := errors.AsType[*cm.BrokenError](conn.Err())
	switch {
	case ok && failed != nil && failed.Status != verbs.WCWRFlushErr:
		wantHistory(t, "BrokenError.History", broken.History,
			[3]string{"event", "RDMA_CM_EVENT_ESTABLISHED"},
			posted,
			[3]string{"complete", posted[1], failed.Status.String()})
	case !overIWARP:
		t.Errorf("Err() after the failure = %v, want a BrokenError", conn.Err())
	}
	if err := conn.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	wantHistory(t, "History() after Close", conn.History(),
		posted,
		[3]string{"call", "destroy", ""},
		[3]string{"close", "QP", ""})
}

// TestHistoryOfADeadPeer sends to a peer that has vanished. The BrokenError has the requests. A later History
// also has the failure of the connection.
func TestHistoryOfADeadPeer(t *testing.T) {
	n := newIdleNet()
	_, client := n.connect(t, -1, -1)
	buf := ok(client.Alloc(64, verbs.LocalWrite))(t)
	n.dead.Store(true)
	err := client.Send(within(t, 20*time.Second), buf.Slice(0, 7))
	broken := new(cm.BrokenError)
	if wc, ok := errors.AsType[*verbs.WCError](err); !ok || wc.Status != verbs.WCRetryExcErr {
		t.Fatalf("Send to a dead peer = %v, want %v", err, verbs.WCRetryExcErr)
	}
	if err := client.Err(); !errors.As(err, &broken) {
		t.Fatalf("Err() after the failure = %v, want a BrokenError", err)
	}
	last := [][3]string{
		{"event", "RDMA_CM_EVENT_ESTABLISHED", "state established"},
		{"post", "request 0", "SEND, 7 bytes"},
		{"complete", "request 0", "transport retry counter exceeded"},
	}
	wantHistory(t, "BrokenError.History", broken.History, last...)
	wantHistory(t, "History()", client.History(), append(last, [3]string{"break", "send", "state established"})...)
	if text := broken.History.String(); strings.Count(text, "\n") != len(broken.History.Entries) {
		t.Errorf("BrokenError.History.String() =\n%swant %d lines", text, len(broken.History.Entries))
	}
}

// TestHistoryOfACancelledSend cancels a send to a peer that has no receive posted. The BrokenError has the
// history before the request was flushed.
func TestHistoryOfACancelledSend(t *testing.T) {
	n := newIdleNet()
	_, client := n.connect(t, -1, -1)
	buf := ok(client.Alloc(64, verbs.LocalWrite))(t)
	err := client.Send(within(t, 50*time.Millisecond), buf.Slice(0, 7))
	broken, ok := errors.AsType[*cm.BrokenError](err)
	if !ok || !broken.Cancelled {
		t.Fatalf("Send with an ended context = %v, want a cancelled operation", err)
	}
	if e := broken.History.Entries; len(e) == 0 || e[len(e)-1].Event != "post" || e[len(e)-1].Object != "request 0" {
		t.Errorf("BrokenError.History =\n%vwant the post of request 0 at the end", broken.History)
	}
	wantHistory(t, "History()", client.History(),
		[3]string{"post", "request 0", "SEND, 7 bytes"},
		[3]string{"give up", "send", "state established"},
		[3]string{"complete", "request 0", "work request flushed"})
}

// TestHistoryWhileRecording reads the History while other goroutines use the connection and end it.
func TestHistoryWhileRecording(t *testing.T) {
	n := newIdleNet()
	server, client := n.connect(t, -1, time.Millisecond)
	buf := ok(client.Alloc(64, verbs.LocalWrite))(t)
	var all sync.WaitGroup
	stop := make(chan struct{})
	for _, c := range []*cm.Conn{server, client} {
		all.Go(func() {
			for {
				if h := c.History(); len(h.Entries) > 8+32 {
					t.Errorf("len(History().Entries) = %d, want at most %d", len(h.Entries), 8+32)
				}
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
				}
			}
		})
	}
	for range 100 {
		if err := client.Probe(within(t, 10*time.Second)); err != nil {
			t.Errorf("Probe: %v", err)
		}
	}
	n.dead.Store(true)
	if err := client.Send(within(t, 20*time.Second), buf.Slice(0, 1)); err == nil {
		t.Error("Send to a dead peer = nil, want an error")
	}
	client.Close()
	server.Close()
	close(stop)
	all.Wait()
}
