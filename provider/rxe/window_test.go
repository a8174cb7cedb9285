// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rxe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/internal/ring"
	"purerdma/provider"
)

// TestLocalInvOfAnUnboundWindow checks that a LOCAL_INV of an unbound window is refused,
// because the kernel does not survive it. A window is unbound before the first bind, and after
// either side has invalidated it.
func TestLocalInvOfAnUnboundWindow(t *testing.T) {
	c, q := rig(t, provider.QPConfig{Type: provider.RC})
	const first = 0x10001_7f
	c.windows.add(first)
	post := func(wr provider.SendWR) error {
		_, err := q.PostSend([]provider.SendWR{wr})
		q.taken()
		return err
	}
	bind := func(from, to uint32) {
		t.Helper()
		if err := post(provider.SendWR{Opcode: provider.OpBindMW, Bind: &provider.MWBindInfo{Type: provider.MWType2, MW: from, RKey: to}}); err != nil {
			t.Fatalf("BIND_MW from key %#x to %#x: %v", from, to, err)
		}
	}
	invalidate := func(key uint32, want error) {
		t.Helper()
		if err := post(provider.SendWR{Opcode: provider.OpLocalInv, InvalidateRKey: key}); !errors.Is(err, want) {
			t.Errorf("LOCAL_INV of key %#x = %v, want %v", key, err, want)
		}
	}
	invalidate(first, syscall.EINVAL)
	bind(first, first+1)
	invalidate(first, syscall.EINVAL)
	invalidate(first+1, nil)
	invalidate(first+1, syscall.EINVAL)
	bind(first+1, first+2)
	peerInvalidates(t, c, first+2)
	invalidate(first+2, syscall.EINVAL)
	bind(first+2, first)
	invalidate(first, nil)
	invalidate(0x10002_00, nil) // not a key of this context, so the kernel must check it
	c.windows.remove(first)
	invalidate(first, nil)
}

// TestDiscardedBatchLeavesWindows checks that requests that were built and not posted leave a
// window unchanged. The program posts the same requests again.
func TestDiscardedBatchLeavesWindows(t *testing.T) {
	c, q := rig(t, provider.QPConfig{Type: provider.RC})
	const first = 0x10001_7f
	c.windows.add(first)
	bind := provider.SendWR{Opcode: provider.OpBindMW, Bind: &provider.MWBindInfo{Type: provider.MWType2, MW: first, RKey: first + 1}}
	invalidate := provider.SendWR{Opcode: provider.OpLocalInv, InvalidateRKey: first + 1}
	batch := func(finish func() error, wrs ...provider.SendWR) {
		t.Helper()
		q.BatchBegin()
		for i := range wrs {
			if err := q.BatchAdd(&wrs[i]); err != nil {
				q.BatchDiscard()
				t.Fatalf("BatchAdd(%v): %v", wrs[i].Opcode, err)
			}
		}
		if err := finish(); err != nil {
			t.Fatalf("end of the batch: %v", err)
		}
		q.taken()
	}
	discard := func() error { q.BatchDiscard(); return nil }
	refused := func() error { // because of the state of the QP
		q.SetState(provider.QPReset)
		defer q.SetState(provider.QPRTS)
		var state *provider.QPStateError
		if err := q.BatchPost(); !errors.As(err, &state) {
			return fmt.Errorf("BatchPost in RESET = %v, want a QPStateError", err)
		}
		return nil
	}
	for _, dropped := range []func() error{discard, refused} {
		batch(dropped, bind, invalidate, bind)
		if got := c.windows.bound[index(first)]; got != 0 {
			t.Errorf("after a dropped batch the window is bound to %#x, want no key", got)
		}
	}
	batch(q.BatchPost, bind)
	for _, dropped := range []func() error{discard, refused} {
		batch(dropped, invalidate)
	}
	batch(q.BatchPost, invalidate)
	if got := c.windows.bound[index(first)]; got != 0 {
		t.Errorf("after LOCAL_INV the window is bound to %#x, want no key", got)
	}
	// A concurrent invalidation by the peer stays in effect.
	batch(q.BatchPost, bind)
	q.BatchBegin()
	bind.Bind.RKey = first + 2
	if err := q.BatchAdd(&bind); err != nil {
		t.Fatalf("qp.BatchAdd: %v", err)
	}
	c.windows.unbind(first + 2)
	q.BatchDiscard()
	if got := c.windows.bound[index(first)]; got != 0 {
		t.Errorf("after a peer's invalidation the window is bound to %#x, want no key", got)
	}
	// So does a peer's invalidation of the key that the batch would have removed.
	for _, wr := range []provider.SendWR{invalidate, bind} {
		bind.Bind.RKey = first + 1
		batch(q.BatchPost, bind)
		bind.Bind.RKey = first + 2
		q.BatchBegin()
		if err := q.BatchAdd(&wr); err != nil {
			t.Fatalf("qp.BatchAdd: %v", err)
		}
		c.windows.unbind(first + 1)
		q.BatchDiscard()
		if got := c.windows.bound[index(first)]; got != 0 {
			t.Errorf("after a peer's invalidation and a dropped %v the window is bound to %#x, want no key", wr.Opcode, got)
		}
	}
}

// peerInvalidates has a CQ of the context report a peer's SEND_WITH_INV.
func peerInvalidates(t *testing.T, c *Context, key uint32) {
	t.Helper()
	p, err := c.CreateCQ(&provider.CQConfig{Entries: 1})
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	q := p.(*cq)
	wc := ring.At[abi.UverbsWC](&q.ring, q.consumer)
	wc.WCFlags = kernelWithInv
	binary.NativeEndian.PutUint32(wc.Ex[:], key)
	q.ring.StoreProducer(q.ring.Next(q.consumer))
	var wcs [1]provider.WC
	if n, err := q.Poll(wcs[:]); n != 1 || err != nil || wcs[0].InvalidatedRKey != key {
		t.Fatalf("Poll = %d, %v, %+v, want a completion with key %#x", n, err, wcs[0], key)
	}
}
