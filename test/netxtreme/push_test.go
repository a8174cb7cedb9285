// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"bytes"
	"testing"

	"purerdma/test/pci"
)

const rigPushPage = firstDPI + 2

// pushStart stores the first doorbell of a push, pushEnd the last one, and pushed the request between them.
func (q *rigQP) pushStart(buffer, page, index uint32) {
	q.ringPush(doorbellPushStart, buffer, page, index)
}

func (q *rigQP) pushEnd(buffer, page, index uint32) { q.ringPush(doorbellPushEnd, buffer, page, index) }

func (q *rigQP) ringPush(kind, buffer, page, index uint32) {
	v := uint64(kind)<<60 | uint64(page>>8)<<52 | uint64(q.n)<<32 | uint64(page&0xff)<<24 | uint64(index)
	q.r.write(doorbellBAR, doorbellStart+uint64(q.dpi)*pageSize+uint64(buffer+1)*8, v, 8)
}

func (q *rigQP) pushed(buffer, page uint32, w []byte) {
	for i := 0; i < len(w); i += 8 {
		q.r.write(doorbellBAR, doorbellStart+uint64(page)*pageSize+uint64(buffer)*pushSize+uint64(i), le.Uint64(w[i:]), 8)
	}
}

// inline returns a SEND of inline data, which fills whole slots.
func inline(data []byte) []byte {
	return append(header(opSend, flagInline|flagSignaled, 2+len(data)/slotSize, 0, uint32(len(data))), data...)
}

// TestPush pushes requests, past the end of the send queue, behind a request that is not pushed.
func TestPush(t *testing.T) {
	for name, f := range map[string]func() pci.Fabric{"P5": New, "P7": NewP7} {
		t.Run(name, func(t *testing.T) {
			a, b := pairOn(t, f())
			w := inline(bytes.Repeat([]byte{1, 2, 3, 4}, 4*slotSize/4))
			for i := range 40 {
				for range 2 {
					b.postReceive(b.memory, b.key, 100)
				}
				a.put(inline(make([]byte, slotSize)), slotSize)
				at, buffer := a.pi%a.slots, uint32(1+i%(pushBuffers-1))
				a.put(w, 4*slotSize)
				a.pushStart(buffer, rigPushPage, at)
				a.pushed(buffer, rigPushPage, w)
				a.pushEnd(buffer, rigPushPage, a.pi%a.slots)
				for range 2 {
					b.cq.want(completeReceive, statusOK)
					a.cq.want(completeRequest, statusOK)
				}
				if !bytes.Equal(b.r.bytes(b.memory, 4*slotSize), w[2*slotSize:]) {
					t.Fatal("the data differ")
				}
				for _, q := range []*rigQP{a, b} {
					q.r.ringDoorbell(q.dpi, doorbellCQ, q.cq.n, q.cq.ci%q.cq.depth)
				}
			}
			if len(a.r.d.pushes) > 0 {
				t.Errorf("%d pushes are open", len(a.r.d.pushes))
			}
		})
	}
}

// TestPushMistakes pushes requests like a driver must not.
func TestPushMistakes(t *testing.T) {
	w := inline(make([]byte, slotSize))
	for want, do := range map[string]func(q *rigQP){
		"QP 0x99 does not exist": func(q *rigQP) { q.n = 0x99; q.pushStart(1, rigPushPage, 0) },
		"has another page":       func(q *rigQP) { q.dpi++; q.pushStart(1, rigPushPage, 0) },
		"no buffer 0":            func(q *rigQP) { q.pushStart(0, rigPushPage, 0) },
		"no buffer 16":           func(q *rigQP) { q.pushStart(16, rigPushPage, 0) },
		"in page 1007":           func(q *rigQP) { q.pushStart(1, firstDPI-1, 0) },
		"in page 2032":           func(q *rigQP) { q.pushStart(1, maxDPI, 0) },
		"which did not start":    func(q *rigQP) { q.pushEnd(1, rigPushPage, 0) },
		"of QP 0x81, which did not start": func(q *rigQP) {
			q.pushStart(1, rigPushPage, 0)
			other := q.r.qp(typeRC)
			other.pushEnd(1, rigPushPage, 0)
		},
		"pushed request 0: its header": func(q *rigQP) {
			q.pushStart(1, rigPushPage, 0)
			q.pushed(1, rigPushPage, []byte{2: pushSize/slotSize + 1, 7: 0})
			q.pushEnd(1, rigPushPage, 0)
		},
		"outside of a push": func(q *rigQP) { q.pushed(1, rigPushPage, w[:8]) },
		"a store of 8 bytes outside of a push": func(q *rigQP) {
			q.pushStart(1, rigPushPage, 0)
			q.r.write(doorbellBAR, doorbellStart+rigPushPage*pageSize+2*pushSize-4, 1, 8)
		},
		"its header or its index": func(q *rigQP) { q.pushStart(1, rigPushPage, 0); q.pushEnd(1, rigPushPage, 0) },
		"index is wrong": func(q *rigQP) {
			q.pushStart(1, rigPushPage, 16)
			q.pushed(1, rigPushPage, w)
			q.pushEnd(1, rigPushPage, 0)
		},
		"parts of it were not written": func(q *rigQP) {
			q.pushStart(1, rigPushPage, 0)
			q.pushed(1, rigPushPage, w[:2*slotSize])
			q.pushEnd(1, rigPushPage, 0)
		},
		"it differs from the send queue": func(q *rigQP) {
			q.pushStart(1, rigPushPage, 0)
			q.pushed(1, rigPushPage, w)
			q.pushEnd(1, rigPushPage, 0)
		},
	} {
		a, _ := pair(t)
		a.r.tolerant = true
		do(a)
		a.r.reported(t, want)
	}
}

// TestOffers checks that the firmware offers pushes and the FIFO of doorbells, and DPIs only behind the pages of Ethernet.
func TestOffers(t *testing.T) {
	r := newRig(t, nil)
	const push, pacing = 0x10_0000, 0x8
	if out := r.hwrm(0x15, func(in []byte) { le.PutUint16(in[16:], 0xffff) }); le.Uint32(out[0xc:])&push == 0 || le.Uint32(out[0x58:])&pacing == 0 {
		t.Errorf("flags %#x and %#x, want %#x and %#x", le.Uint32(out[0xc:]), le.Uint32(out[0x58:]), push, pacing)
	}
	size := uint64(le.Uint16(r.hwrm(0x16, nil)[0x4c:])) << 10
	side := r.alloc(pageSize)
	r.must(0x83, 0x18, func(in []byte) {
		in[6] = 0xa0 / entrySize
		le.PutUint64(in[8:], side)
	})
	if n, all := uint64(le.Uint32(r.bytes(side+0x80, 4))), r.d.RegionSize(doorbellBAR); size >= all || n != (all-size)/pageSize {
		t.Errorf("%d DPIs behind %#x of %#x bytes", n, size, all)
	}
}
