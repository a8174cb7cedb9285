// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/pool"
	"purerdma/verbs"
)

// TestConnStartedOperations has one goroutine start more READs than fit the send queue, each into
// memory of a pool, and then wait for them. It abandons some. The connection goes on, and all
// memory comes back.
func TestConnStartedOperations(t *testing.T) {
	onAnyKernel(t, startedOperations)
	onIWARP(t, startedOperations)
}

func startedOperations(t *testing.T, host *verbs.Host, server, client netip.Addr) {
	const count, size = 50, 512
	ctx := within(t, time.Minute)
	ln := listenOn(t, cm.ListenConfig{Host: host}, netip.AddrPortFrom(server, 0).String())
	defer ln.Close()
	accepted := acceptOne(ctx, t, ln, func(req *cm.Request) (*cm.ConnParam, error) {
		table, err := req.Alloc(count*size, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite)
		if err != nil {
			return nil, err
		}
		for i := range table.Bytes() {
			table.Bytes()[i] = byte(i / size)
		}
		offer, err := table.Remote().MarshalBinary()
		return &cm.ConnParam{PrivateData: offer}, err
	})
	d := &cm.Dialer{Host: host, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(client, 0)), QP: verbs.QPConfig{Cap: verbs.QPCap{SendWR: 8}}}
	conn := ok(d.Dial(ctx, "tcp", ln.Addr().String()))(t)
	defer conn.Close()
	peer := accepted()
	defer peer.Close()
	var theirs verbs.RemoteMemory
	if err := theirs.UnmarshalBinary(conn.PrivateData()[:verbs.RemoteMemoryLen]); err != nil {
		t.Fatalf("UnmarshalBinary: %v", err)
	}
	// On iWARP the peer's device writes the data of a READ. siw does not check the right, so the connection's
	// pool is good enough.
	mem := ok(pool.New(conn.PD(), pool.Config{Access: verbs.LocalWrite | verbs.RemoteWrite}))(t)
	defer mem.Close()

	var ops []cm.Op
	var bufs []*pool.Buf
	for i := range count {
		from := mem
		if i%2 == 1 {
			from = conn.Pool()
		}
		b := ok(from.Get(ctx, size))(t)
		op, err := conn.StartRead(ctx, b.SGE(), theirs.Slice(i*size, size), b.Ref())
		if err != nil {
			t.Fatalf("StartRead(%d): %v", i, err)
		}
		ops, bufs = append(ops, op), append(bufs, b)
	}
	for i, op := range ops {
		if i%7 == 3 {
			op.Abandon()
		} else if err := op.Wait(ctx); err != nil {
			t.Fatalf("operation %d: Wait() = %v", i, err)
		} else if got := bufs[i].Bytes(); got[0] != byte(i) || got[size-1] != byte(i) {
			t.Errorf("READ %d has %d and %d, want %d", i, got[0], got[size-1], i)
		}
		bufs[i].Free()
	}

	// An ended context ends the wait only. The peer has no receive, so the SEND stays in flight on
	// RoCE.
	b := ok(mem.Get(ctx, size))(t)
	op, err := conn.StartSend(ctx, b.SGE(), b.Ref())
	if err != nil {
		t.Fatalf("StartSend: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	err = op.Wait(ended)
	if wc, failed := errors.AsType[*verbs.WCError](err); failed && wc.Status == verbs.WCGeneralErr && conn.Device().Transport() == verbs.TransportIWARP {
		err = nil // the message without a receive has ended the connection
	}
	if _, pending := errors.AsType[*inflight.PendingError](err); err != nil && (!pending || !errors.Is(err, context.Canceled)) {
		t.Errorf("Wait() with an ended context = %v, want a PendingError of %v", err, context.Canceled)
	}
	if err != nil {
		op.Abandon()
	}
	if err := conn.Err(); err != nil && conn.Device().Transport() != verbs.TransportIWARP {
		t.Errorf("Conn.Err() = %v after an abandoned operation, want nil", err)
	}
	b.Free()
	if err := conn.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for end := time.Now().Add(10 * time.Second); mem.Stats().InUse != 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if s := mem.Stats(); s.InUse != 0 {
		t.Errorf("%d bytes of the pool are in use after Close, want 0", s.InUse)
	}
	h := new(freedHolder)
	if _, err := conn.StartSend(ctx, verbs.SGE{}, h); err == nil || *h != 1 {
		t.Errorf("StartSend() after Close = %v with %d calls of Free, want an error and one", err, *h)
	}
}

// freedHolder counts calls of Free.
type freedHolder int

func (h *freedHolder) Free() { *h++ }

// TestConnOperations gathers messages from two pieces of memory, and counts the calls of the function.
func TestConnOperations(t *testing.T) {
	onAnyKernel(t, func(t *testing.T, host *verbs.Host, server, client netip.Addr) {
		const count = 20
		ctx := within(t, time.Minute)
		receive := &inflight.ReceiveConfig{Size: 64, Depth: count}
		ln := listenOn(t, cm.ListenConfig{Host: host, Receive: receive}, netip.AddrPortFrom(server, 0).String())
		defer ln.Close()
		accepted := acceptOne(ctx, t, ln, nil)
		d := &cm.Dialer{Host: host, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(client, 0)), Receive: receive,
			QP: verbs.QPConfig{Cap: verbs.QPCap{SendWR: 2 * count, SendSGE: 2}}}
		conn := ok(d.Dial(ctx, "tcp", ln.Addr().String()))(t)
		defer conn.Close()
		peer := accepted()
		defer peer.Close()
		b := ok(conn.Pool().Get(ctx, 32))(t)
		defer b.Free()
		copy(b.Bytes(), "header and the data")
		q := ok(conn.Operations())(t)
		wr := verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{b.Slice(0, 6), b.Slice(14, 5)}}
		results := make(chan error, count)
		for range count {
			if err := q.Go(ctx, &wr, nil, func(err error) { results <- err }); err != nil {
				t.Fatalf("Go() = %v", err)
			}
			m := ok(peer.Receive(ctx))(t)
			if got := string(m.Bytes()); got != "header data" {
				t.Errorf("Receive = %q, want %q", got, "header data")
			}
			m.Free()
		}
		for range count {
			if err := <-results; err != nil {
				t.Errorf("result of Go = %v, want nil", err)
			}
		}
		conn.Close()
		if err := q.Go(ctx, &wr, nil, func(error) { t.Error("Go has failed and called the function") }); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Go() after Close = %v, want %v", err, net.ErrClosed)
		}
	})
}
