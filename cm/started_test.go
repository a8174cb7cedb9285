// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
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
}

func startedOperations(t *testing.T, host *verbs.Host, server, client netip.Addr) {
	const count, size = 50, 512
	ctx := within(t, time.Minute)
	ln := listenOn(t, cm.ListenConfig{Host: host}, netip.AddrPortFrom(server, 0).String())
	defer ln.Close()
	accepted := make(chan *cm.Conn, 1)
	go func() {
		defer close(accepted)
		req, err := ln.Accept(ctx)
		if err != nil {
			t.Errorf("Listener.Accept: %v", err)
			return
		}
		defer req.Close()
		table, err := req.Alloc(count*size, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite)
		if err != nil {
			t.Errorf("Request.Alloc: %v", err)
			return
		}
		for i := range table.Bytes() {
			table.Bytes()[i] = byte(i / size)
		}
		offer, _ := table.Remote().MarshalBinary()
		conn, err := req.Accept(ctx, nil, &cm.ConnParam{PrivateData: offer})
		if err != nil {
			t.Errorf("Request.Accept: %v", err)
			return
		}
		accepted <- conn
	}()
	d := &cm.Dialer{Host: host, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(client, 0)), QP: verbs.QPConfig{Cap: verbs.QPCap{SendWR: 8}}}
	conn := ok(d.Dial(ctx, "tcp", ln.Addr().String()))(t)
	defer conn.Close()
	peer := <-accepted
	if peer == nil {
		return
	}
	defer peer.Close()
	var theirs verbs.RemoteMemory
	if err := theirs.UnmarshalBinary(conn.PrivateData()[:verbs.RemoteMemoryLen]); err != nil {
		t.Fatalf("UnmarshalBinary: %v", err)
	}
	// On iWARP the peer's device writes the data of a READ.
	mem := ok(pool.New(conn.PD(), pool.Config{Access: verbs.LocalWrite | verbs.RemoteWrite}))(t)
	defer mem.Close()

	var ops []cm.Op
	var bufs []*pool.Buf
	for i := range count {
		b := ok(mem.Get(ctx, size))(t)
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
