// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma

import (
	"encoding/binary"
	"slices"
	"testing"
	"unsafe"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// TestUsualCompletions checks that the loops for usual completions take them, and end at others.
func TestUsualCompletions(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	l, p := r.connected(t, provider.QPCap{SendWR: 16, RecvWR: 16}), r.connected(t, provider.QPCap{SendWR: 16, RecvWR: 16})
	l.dev.peer, p.dev.peer = p.dev, l.dev
	p.recv(1, 2, 3, 4, 5)
	l.send(1, 2, 3, 4)
	r.device.run()
	for _, e := range []*end{l, p} {
		if got := e.poll(1); len(got) != 1 || got[0].ID != 1 {
			t.Fatalf("completions = %+v, want one of ID 1", got)
		}
	}
	p.dev.flush()
	wcs := make([]provider.WC, 9)
	if n := l.c.requests(wcs); !slices.Equal(ids(wcs[:n]), []uint64{2, 3, 4}) {
		t.Errorf("requests = %+v, want 2 to 4", wcs[:n])
	}
	if n := p.c.receives(wcs); !slices.Equal(ids(wcs[:n]), []uint64{2, 3, 4}) {
		t.Errorf("receives = %+v, want 2 to 4", wcs[:n])
	}
	if got := p.poll(9); len(got) != 1 || got[0].ID != 5 || got[0].Status != provider.WCWRFlushErr {
		t.Errorf("completions = %+v, want the flushed receive 5", got)
	}
}

// TestRecordOfCQ checks a CQ's doorbell record for a number of more than 16 bits, at first and when the CQ is armed.
func TestRecordOfCQ(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	r.onCQ = func(a *abi.ErdmaUrespCreateCQ) { a.CQID = 0x123456 }
	c, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 8})
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	defer c.Close()
	record := unsafe.Slice((*byte)(c.(*cq).record.Mem()), 8)
	if got, want := binary.LittleEndian.Uint64(record), uint64(0xff_123456_30000000); got != want {
		t.Errorf("doorbell record = %#x, want %#x", got, want)
	}
	if err := c.Arm(false); err != nil {
		t.Fatalf("CQ.Arm: %v", err)
	}
	if got, want := binary.LittleEndian.Uint64(record), uint64(0x00_123456_80000000); got != want {
		t.Errorf("doorbell record of an armed CQ = %#x, want %#x", got, want)
	}
}

// TestNumbersOutOfRange looks up numbers that no QP can have.
func TestNumbersOutOfRange(t *testing.T) {
	for _, num := range []uint32{numQPs - 1, numQPs, numQPs + 1, 1 << 31, ^uint32(0)} {
		if q := new(table).find(num); q != nil {
			t.Errorf("table.find(%#x) = %p, want nil", num, q)
		}
	}
}
