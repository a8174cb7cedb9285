// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestMillion executes a hundred thousand operations, or a million in the long form. Each operation carries a
// different number, and the test compares all numbers. It logs the time.
func TestMillion(t *testing.T) {
	operations := 100_000
	if longtest.Enabled() && !vmtest.Inside() { // the test needs no kernel
		operations = 1_000_000
	}
	const batch, size = 64, 16
	n := newNet(t, nil)
	a, b := n.pair(verbs.QPCap{SendWR: 2 * batch, RecvWR: 2 * batch}, retries{14, 7, 7, 1})
	start := time.Now()
	wrs, receives := make([]verbs.SendWR, batch), make([]verbs.RecvWR, batch)
	wcs := make([]verbs.WC, batch)
	kinds := []verbs.SendOpcode{verbs.OpSend, verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd}
	collect := func(e *end, n int) {
		t.Helper()
		for n > 0 {
			k, err := e.cq.Poll(wcs[:n])
			if err != nil {
				t.Fatalf("e.cq.Poll: %v", err)
			}
			for i := range wcs[:k] {
				if err := wcs[i].Err(); err != nil {
					t.Fatalf("completion %d: %v", wcs[i].ID, err)
				}
			}
			if n -= k; k == 0 {
				runtime.Gosched() // the device also needs a processor
			}
		}
	}
	le := binary.LittleEndian
	number := uint64(1)
	for done := 0; done < operations; done += batch {
		op := kinds[done/batch%len(kinds)]
		for i := range wrs {
			from, to := a.mr.Slice(i*size, size), b.mr.Slice(i*size, size)
			wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: op, SGList: []verbs.SGE{from}, RemoteAddr: to.Addr, RKey: b.mr.RKey()}
			switch op {
			case verbs.OpSend:
				receives[i] = verbs.RecvWR{ID: uint64(i), SGList: []verbs.SGE{to}}
				fallthrough
			case verbs.OpWrite:
				le.PutUint64(a.mr.Bytes()[i*size:], number+uint64(i))
			case verbs.OpRead:
				le.PutUint64(b.mr.Bytes()[i*size:], number+uint64(i))
			case verbs.OpFetchAdd:
				le.PutUint64(b.mr.Bytes()[i*size:], number+uint64(i))
				wrs[i].SGList[0].Length, wrs[i].CompareAdd = 8, 1
			}
		}
		wrs[batch-1].Flags = verbs.SendSignaled
		if op == verbs.OpSend {
			b.recv(receives...)
		}
		a.send(wrs...)
		collect(a, 1)
		if op == verbs.OpSend {
			collect(b, batch)
		}
		for i := range wrs {
			here, there := le.Uint64(a.mr.Bytes()[i*size:]), le.Uint64(b.mr.Bytes()[i*size:])
			want := number + uint64(i)
			if op == verbs.OpFetchAdd {
				there--
			}
			if here != want || there != want {
				t.Fatalf("numbers of %v %d = %d here and %d there, want %d", op, i, here, there, want)
			}
		}
		number += batch
	}
	took := time.Since(start)
	t.Logf("%d operations in %v, %v each", operations, took.Round(time.Millisecond), took/time.Duration(operations))
}
