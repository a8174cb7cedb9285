// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

func (e *end) watch(t *testing.T) *verbs.AsyncEvents {
	t.Helper()
	q, err := e.dev.AsyncEvents()
	if err != nil {
		t.Fatalf("Device.AsyncEvents: %v", err)
	}
	closer(t, q)
	return q
}

// expect waits for an event of a type, and skips other events.
func expect(t *testing.T, q *verbs.AsyncEvents, typ verbs.AsyncEventType) verbs.AsyncEvent {
	t.Helper()
	for {
		ev, err := q.Next(deadline(t))
		if err != nil {
			t.Fatalf("no %v: AsyncEvents.Next: %v", typ, err)
		}
		t.Logf("%v %+v", ev.Type, ev)
		if ev.Type == typ {
			return ev
		}
	}
}

// unexpected fails the test if an event arrives within a short time.
func unexpected(t *testing.T, q *verbs.AsyncEvents) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if ev, err := q.Next(ctx); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Next = %v %+v, %v, want no event", ev.Type, ev, err)
	}
}

// TestVMAsyncSRQ lets the number of receives in an SRQ fall below the SRQ's limit.
func TestVMAsyncSRQ(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		_, pd := openPD(t, rt.h, rt.b.Device)
		srq, err := pd.CreateSRQ(verbs.SRQConfig{})
		if err != nil {
			t.Fatalf("PD.CreateSRQ: %v", err)
		}
		closer(t, srq)
		l := newEnd(t, rt.h, rt.a, verbs.QPCap{})
		r := newEndWith(t, rt.h, rt.b, verbs.QPConfig{SRQ: srq})
		connect(t, l, r)
		first, second := r.watch(t), r.watch(t)
		if _, err := srq.PostRecv(make([]verbs.RecvWR, 5)); err != nil {
			t.Fatalf("SRQ.PostRecv: %v", err)
		}
		if err := srq.Modify(verbs.SRQAttr{Limit: 4}, verbs.SRQAttrLimit); err != nil {
			t.Fatalf("SRQ.Modify(Limit 4): %v", err)
		}
		for range 3 {
			l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
			l.ok(t, 1)
		}
		for _, q := range []*verbs.AsyncEvents{first, second} {
			if ev := expect(t, q, verbs.AsyncSRQLimitReached); ev.SRQ != srq || ev.QP != nil || ev.CQ != nil {
				t.Errorf("event = %+v, want one of SRQ %p only", ev, srq)
			}
		}
		t.Run("limit", func(t *testing.T) {
			if a, err := srq.Query(); err != nil || a.Limit != 0 {
				t.Errorf("limit after its event = %d, %v, want 0, nil", a.Limit, err)
			}
		})
		unexpected(t, first)
		ends := make(chan error)
		go func() {
			_, err := first.Next(context.Background())
			ends <- err
		}()
		time.Sleep(5 * time.Millisecond)
		first.Close()
		if err := <-ends; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Next during Close = %v, want net.ErrClosed", err)
		}
	})
}

// TestVMAsyncCQ overruns a CQ. An event reports this, and Poll and Wait return ErrOverrun after
// the completions that did fit.
func TestVMAsyncCQ(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		l, r := newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEnd(t, rt.h, rt.b, verbs.QPCap{})
		small := createCQ(t, l.dev, verbs.CQConfig{Entries: 3})
		var err error
		if l.qp, err = l.pd.CreateQP(verbs.QPConfig{SendCQ: small, RecvCQ: l.cq}); err != nil {
			t.Fatalf("PD.CreateQP: %v", err)
		}
		closer(t, l.qp)
		connect(t, l, r)
		q := l.watch(t)
		posted := small.Entries() + 2
		for range posted {
			l.send(t, verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), InlineData: []byte("x")})
		}
		if ev := expect(t, q, verbs.AsyncCQErr); ev.CQ != small {
			t.Errorf("event = %+v, want one of CQ %p", ev, small)
		}
		got, wcs := 0, make([]verbs.WC, 1)
		for err == nil {
			var n int
			n, err = small.Wait(deadline(t), wcs)
			got += n
		}
		// A device may continue when there is room again.
		if !errors.Is(err, verbs.ErrOverrun) || got < small.Entries() || got >= posted {
			t.Errorf("Wait = %d of %d completions in a CQ of %d, then %v, want ErrOverrun", got, posted, small.Entries(), err)
		}
		if n, err := small.Poll(wcs); n != 0 || !errors.Is(err, verbs.ErrOverrun) {
			t.Errorf("CQ.Poll = %d, %v, want 0, verbs.ErrOverrun", n, err)
		}
	})
}

// TestVMAsyncPort takes an interface down and up again. The test creates its own interface,
// because another interface would lose its addresses and routes.
func TestVMAsyncPort(t *testing.T) {
	vmtest.Need(t)
	const name = "rxetest"
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "veth-a"}, PeerName: "veth-b"}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Fatalf("netlink.LinkAdd: %v", err)
	}
	t.Cleanup(func() {
		if err := netlink.LinkDel(veth); err != nil {
			t.Errorf("netlink.LinkDel: %v", err)
		}
	})
	for _, end := range []string{veth.Name, veth.PeerName} {
		link, err := netlink.LinkByName(end)
		if err != nil {
			t.Fatalf("netlink.LinkByName: %v", err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			t.Fatalf("netlink.LinkSetUp: %v", err)
		}
	}
	driver := vmtest.Driver()
	if driver == "mlx5" || driver == "bnxt_re" {
		driver = "rxe" // a card's device belongs to the card's interface
	}
	if err := netlink.RdmaLinkAdd(name, driver, veth.Name); err != nil {
		t.Fatalf("netlink.RdmaLinkAdd: %v", err)
	}
	t.Cleanup(func() {
		if err := netlink.RdmaLinkDel(name); err != nil {
			t.Errorf("netlink.RdmaLinkDel: %v", err)
		}
	})
	dev := openDevice(t, verbs.DefaultHost(), name)
	next := make(chan verbs.AsyncEvent, 100)
	ctx, cancel := context.WithCancel(deadline(t))
	ended := make(chan error)
	go func() {
		var last error
		for ev, err := range dev.Events(ctx) {
			if last = err; err == nil {
				next <- ev
			}
		}
		ended <- last
	}()
	time.Sleep(50 * time.Millisecond) // until the loop has started
	wait := func(typ verbs.AsyncEventType) {
		t.Helper()
		for {
			select {
			case ev := <-next:
				if ev.Type == typ && ev.Port == 1 {
					return
				}
			case <-ctx.Done():
				t.Fatalf("no event %v", typ)
			}
		}
	}
	if err := netlink.LinkSetDown(veth); err != nil {
		t.Fatalf("netlink.LinkSetDown: %v", err)
	}
	wait(verbs.AsyncPortErr)
	if p, err := dev.QueryPort(1); err != nil || p.State == verbs.PortActive {
		t.Errorf("QueryPort = state %v, %v, want an inactive port", p.State, err)
	}
	if err := netlink.LinkSetUp(veth); err != nil {
		t.Fatalf("netlink.LinkSetUp: %v", err)
	}
	wait(verbs.AsyncPortActive)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Events = %v, want context.Canceled", err)
	}
}
