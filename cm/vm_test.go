// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// These tests run on a real kernel: rdmavm -hosts 2. The listening side is the
// first end of the wire, the connecting side the second.

func TestMain(m *testing.M) {
	if child := os.Getenv("CM_TEST_CHILD"); child != "" {
		os.Exit(children[child]())
	}
	vmtest.Main(m)
}

// within returns a context for an operation that must end by itself.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func listen(t *testing.T, address string) *cm.Listener {
	t.Helper()
	ln, err := cm.Listen(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// ends returns a listener on the first end, and a dialer on the second.
func ends(t *testing.T) (*cm.Listener, *cm.Dialer) {
	t.Helper()
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	return listen(t, at(hosts[0].IPv4, 0)), dialerOf(hosts[1].IPv4)
}

func dialerOf(ip netip.Addr) *cm.Dialer {
	return &cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(ip, 0))}
}

func at(ip netip.Addr, port uint16) string { return netip.AddrPortFrom(ip, port).String() }

// echo serves connections until the listener is closed: it sends every message
// back.
func echo(ln *cm.Listener) { echoWithin(ln, time.Minute) }

// echoWithin is echo which waits no longer than that for a client that it has accepted.
func echoWithin(ln *cm.Listener, limit time.Duration) {
	for {
		req, err := ln.Accept(context.Background())
		if err != nil {
			return
		}
		go func() {
			defer req.Close()
			pd, err := req.PD()
			if err != nil {
				return
			}
			// Two receives: the next message may come before the one that was
			// answered is posted anew, and iWARP ends a connection whose receiver is
			// not ready.
			const size = 4096
			buf, err := pd.Alloc(2*size, verbs.LocalWrite)
			if err != nil {
				return
			}
			defer buf.Close()
			for id := range 2 {
				if req.PostRecv(uint64(id), buf.Slice(id*size, size)) != nil {
					return
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			conn, err := req.Accept(ctx, nil, nil)
			if err != nil {
				return
			}
			defer conn.Close()
			for {
				wc, err := conn.WaitRecv(context.Background())
				if err != nil {
					return
				}
				at := int(wc.ID) * size
				if conn.Send(context.Background(), buf.Slice(at, int(wc.ByteLen))) != nil {
					return
				}
				if conn.PostRecv(wc.ID, buf.Slice(at, size)) != nil {
					return
				}
			}
		}()
	}
}

// say sends a message to an echo server and checks what comes back.
func say(t *testing.T, conn *cm.Conn, msg string) {
	t.Helper()
	ctx := within(t, 10*time.Second)
	buf, err := conn.PD().Alloc(8192, verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Close()
	if err := conn.PostRecv(7, buf.Slice(4096, 4096)); err != nil {
		t.Fatal(err)
	}
	copy(buf.Bytes(), msg)
	if err := conn.Send(ctx, buf.Slice(0, len(msg))); err != nil {
		t.Fatal(err)
	}
	wc, err := conn.WaitRecv(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(buf.Bytes()[4096:][:wc.ByteLen]); got != msg || wc.ID != 7 {
		t.Fatalf("sent %q, got back %q in receive %d", msg, got, wc.ID)
	}
}

// served checks that a listener still serves.
func served(t *testing.T, d *cm.Dialer, addr cm.Addr) {
	t.Helper()
	conn, err := d.Dial(within(t, 10*time.Second), "tcp", addr.String())
	if err != nil {
		t.Fatalf("the listener does not serve any more: %v", err)
	}
	defer conn.Close()
	say(t, conn, "still there?")
}

func TestEcho(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, tc := range []struct {
		name           string
		server, client netip.Addr
	}{
		{"IPv4", hosts[0].IPv4, hosts[1].IPv4},
		{"IPv6", hosts[0].IPv6, hosts[1].IPv6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			vmtest.NoLeaks(t)
			ln := listen(t, at(tc.server, 0))
			go echo(ln)
			conn, err := dialerOf(tc.client).Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if conn.RemoteAddr() != ln.Addr() || conn.LocalAddr().Addr() != tc.client {
				t.Errorf("addresses %v -> %v", conn.LocalAddr(), conn.RemoteAddr())
			}
			for _, msg := range []string{"a", "hello", strings.Repeat("x", 4096)} {
				say(t, conn, msg)
			}
		})
	}
}

func TestWildcardListenerTakesBothDevicesAndFamilies(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	for _, tc := range []struct {
		name, address string
		from, to      netip.Addr
	}{
		{"IPv6", ":0", hosts[1].IPv6, hosts[0].IPv6},
		{"IPv6 back", ":0", hosts[0].IPv6, hosts[1].IPv6},
		{"IPv4", "0.0.0.0:0", hosts[1].IPv4, hosts[0].IPv4},
		{"IPv4 back", "0.0.0.0:0", hosts[0].IPv4, hosts[1].IPv4},
		{"both", ":0", hosts[1].IPv4, hosts[0].IPv4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ln := listen(t, tc.address)
			go echo(ln)
			conn, err := dialerOf(tc.from).Dial(within(t, 10*time.Second), "tcp", at(tc.to, ln.Addr().Port()))
			if err != nil {
				t.Fatalf("%v -> %v: %v", tc.from, tc.to, err)
			}
			say(t, conn, "hello")
			conn.Close()
		})
	}
}

// padded is private data as the peer gets it: on RoCE with zeros up to n bytes.
func padded(s string, n int) []byte {
	if iwarp() {
		return []byte(s)
	}
	return append([]byte(s), make([]byte, n-len(s))...)
}

func TestStagesPrivateDataAndDepths(t *testing.T) {
	ln, d := ends(t)
	serverDone := make(chan error, 1)
	go func() {
		serverDone <- func() error {
			req, err := ln.Accept(within(t, 10*time.Second))
			if err != nil {
				return err
			}
			defer req.Close()
			p := req.Param()
			if string(req.PrivateData()) != string(padded("hello", 56)) {
				return errors.New("private data " + string(req.PrivateData()))
			}
			// The peer's initiator depth is what we are asked to respond to.
			if iwarp() { // which has no such counts
				p.RetryCount, p.RNRRetryCount = 5, 6
			}
			if p.ResponderResources != 3 || p.InitiatorDepth != 4 || p.RetryCount != 5 || p.RNRRetryCount != 6 {
				return errors.New("parameters came out wrong")
			}
			if req.Device().Name() == "" || !req.RemoteAddr().IsValid() {
				return errors.New("no device, or no peer")
			}
			conn, err := req.Accept(within(t, 10*time.Second), nil, &cm.ConnParam{PrivateData: []byte("welcome"), ResponderResources: 2, InitiatorDepth: 1})
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Wait(within(t, 10*time.Second))
			return err
		}()
	}()
	r, err := d.Resolve(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pd, err := r.Device().AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	defer pd.Close()
	cq, err := r.Device().CreateCQ(verbs.CQConfig{Entries: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer cq.Close()
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	defer qp.Close()
	if err := r.Init(qp); err != nil {
		t.Fatal(err)
	}
	if qp.State() != verbs.QPInit {
		t.Errorf("after Init the QP is in %v", qp.State())
	}
	conn, err := r.Connect(within(t, 10*time.Second), qp, &cm.ConnParam{PrivateData: []byte("hello"),
		ResponderResources: 4, InitiatorDepth: 3, RetryCount: 5, RNRRetryCount: 6})
	if err != nil {
		t.Fatal(err)
	}
	if conn.QP() != qp || qp.State() != verbs.QPRTS {
		t.Errorf("the QP is in %v", qp.State())
	}
	if string(conn.PrivateData()) != string(padded("welcome", 196)) {
		t.Errorf("private data %q", conn.PrivateData())
	}
	// iWARP has negotiated, and says what each side serves and issues.
	depths := [2]uint8{2, 1}
	if iwarp() {
		depths = [2]uint8{1, 3}
	}
	if p := conn.PeerParam(); p.InitiatorDepth != depths[0] || p.ResponderResources != depths[1] {
		t.Errorf("the peer's depths: %+v", p)
	}
	conn.Close()
	if qp.State() != verbs.QPErr {
		t.Errorf("after Close the QP is in %v", qp.State())
	}
	if err := <-serverDone; err != nil {
		t.Error("server: ", err)
	}
}

// TestEventChannel is the librdmacm model: two IDs on one channel, one of them
// listening.
func TestEventChannel(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ch, err := cm.NewEventChannel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	newID := func() *cm.ID {
		id, err := ch.NewID(cm.PortSpaceTCP)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	addr := func(s string) cm.Addr {
		a, err := cm.ParseAddr(s)
		check(err)
		return a
	}
	l, c := newID(), newID()
	check(l.Bind(addr(at(hosts[0].IPv4, 0))))
	check(l.Listen(3))
	check(c.ResolveAddr(addr(at(hosts[1].IPv4, 0)), l.LocalAddr(), 2*time.Second))
	var seen []string
	established, disconnected := 0, 0
	for ev, err := range ch.Events(within(t, 20*time.Second)) {
		check(err)
		side := "active "
		if ev.ID != c {
			side = "passive "
		}
		seen = append(seen, side+strings.TrimPrefix(ev.Type.String(), "RDMA_CM_EVENT_"))
		switch ev.Type {
		case cm.EventAddrResolved:
			check(c.ResolveRoute(2 * time.Second))
		case cm.EventRouteResolved:
			check(c.CreateQP(nil, verbs.QPConfig{Type: verbs.RC}))
			check(c.Connect(nil))
		case cm.EventConnectRequest:
			if ev.Listener != l {
				t.Errorf("the request is for %v", ev.Listener)
			}
			check(ev.ID.CreateQP(nil, verbs.QPConfig{Type: verbs.RC}))
			check(ev.ID.Accept(nil))
		case cm.EventEstablished:
			if ev.ID.QP().State() != verbs.QPRTS {
				t.Errorf("%s: established with a QP in %v", side, ev.ID.QP().State())
			}
			if established++; established == 2 {
				check(c.Disconnect())
			}
		case cm.EventDisconnected:
			if ev.ID.QP().State() != verbs.QPErr {
				t.Errorf("%s: disconnected with a QP in %v", side, ev.ID.QP().State())
			}
			if ev.ID != c {
				check(ev.ID.Disconnect())
			}
		}
		ev.Ack()
		if ev.Type == cm.EventDisconnected {
			if disconnected++; disconnected == 2 {
				break
			}
		}
	}
	want := "active ADDR_RESOLVED,active ROUTE_RESOLVED,passive CONNECT_REQUEST,active ESTABLISHED,passive ESTABLISHED,passive DISCONNECTED,active DISCONNECTED"
	got := strings.Join(seen, ",")
	// The two ESTABLISHED are independent of each other.
	got = strings.Replace(got, "passive ESTABLISHED,active ESTABLISHED", "active ESTABLISHED,passive ESTABLISHED", 1)
	if iwarp() { // nor does the one side wait for the other's answer
		got = strings.Replace(got, "active DISCONNECTED,passive DISCONNECTED", "passive DISCONNECTED,active DISCONNECTED", 1)
	}
	if got != want {
		t.Errorf("events\n%s, want\n%s", got, want)
	}
	check(c.Destroy(within(t, time.Second)))
	check(l.Destroy(within(t, time.Second)))
}

// TestSelfMovedQP is rping -q: an ID that knows no QP gets CONNECT_RESPONSE, and
// its user moves the QP.
func TestSelfMovedQP(t *testing.T) {
	ln, d := ends(t)
	go echo(ln)
	r, err := d.Resolve(within(t, 10*time.Second), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dev := r.Device()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	defer pd.Close()
	r.Close()

	ch, err := cm.NewEventChannel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	id, err := ch.NewID(cm.PortSpaceTCP)
	if err != nil {
		t.Fatal(err)
	}
	defer id.Close()
	next := func(want cm.EventType) {
		t.Helper()
		ev, err := ch.Next(within(t, 5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		defer ev.Ack()
		if ev.Type != want {
			t.Fatalf("got %v, want %v", ev, want)
		}
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(id.ResolveAddr(d.LocalAddr, ln.Addr(), 2*time.Second))
	next(cm.EventAddrResolved)
	check(id.ResolveRoute(2 * time.Second))
	next(cm.EventRouteResolved)
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC})
	check(err)
	defer qp.Close()
	check(id.Connect(&cm.ConnParam{QPNum: qp.Num(), ResponderResources: 1, InitiatorDepth: 1, RetryCount: 7, RNRRetryCount: 7}))
	next(cm.EventConnectResponse)
	if id.State() != cm.StateResponded {
		t.Errorf("state %q", id.State())
	}
	for _, state := range []verbs.QPState{verbs.QPInit, verbs.QPRTR, verbs.QPRTS} {
		attr, mask, err := id.InitQPAttr(state)
		check(err)
		check(qp.Modify(&attr, mask))
	}
	check(id.Establish())
	check(id.Disconnect())
	next(cm.EventDisconnected)
}
