// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"bytes"
	"testing"

	"purerdma/test/ethernet"
)

// TestVariableRequests posts requests of several sizes on P7, past the end of the queue.
func TestVariableRequests(t *testing.T) {
	a, b := pairOn(t, NewP7())
	fill(a.r.bytes(a.memory, 2000), 1)
	for i := range 200 {
		sges := 1 + i%maxVariableSGE
		b.postReceive(b.memory, b.key, 2000)
		w := header(opSend, flagSignaled, 2+sges, 0, uint32(100*sges))
		for j := range sges {
			w = sge(w, a.memory+uint64(100*j), a.key, 100)
		}
		a.post(w, 100*sges)
		if e := b.cq.want(completeReceive, statusOK); le.Uint32(e) != uint32(100*sges) {
			t.Fatalf("message %d: completion %x, want %d bytes", i, e, 100*sges)
		}
		if e := a.cq.want(completeRequest, statusOK); uint32(le.Uint16(e[8:])) != uint32(i+1)%a.slots {
			t.Fatalf("message %d: index %d, want the number of requests %d", i, le.Uint16(e[8:]), uint32(i+1)%a.slots)
		}
		if !bytes.Equal(b.r.bytes(b.memory, 100*sges), a.r.bytes(a.memory, 100*sges)) {
			t.Fatalf("message %d: the data differ", i)
		}
		for _, q := range []*rigQP{a, b} {
			q.r.ringDoorbell(q.dpi, doorbellCQ, q.cq.n, q.cq.ci%q.cq.depth)
		}
	}
	at := a.pi % a.slots
	a.post(sge(header(opSend, 0, 3, 0, 1), a.memory, a.key+1, 1), 1)
	if e := a.cq.want(completeRequest, statusLocalProtection); uint32(le.Uint16(e[8:])) != at {
		t.Errorf("index %d of a failed request, want its slot %d", le.Uint16(e[8:]), at)
	}
	if e := a.cq.want(completeTerminal, 0); le.Uint16(e[8:]) != 201%uint16(a.slots) {
		t.Errorf("last completion with index %d, want the number of requests %d", le.Uint16(e[8:]), 201%a.slots)
	}
}

// TestVariableMistakes posts requests that a driver must not post on P7.
func TestVariableMistakes(t *testing.T) {
	for want, do := range map[string]func(q *rigQP){
		"it has 16 slots":                  func(q *rigQP) { q.post(header(opSend, 0, 16, 0, 0), 0) },
		"it has 5 slots, and 2 are posted": func(q *rigQP) { q.post(header(opSend, 0, 5, 0, 0), 0) },
		"its entry 0 in the table has PSNs 0xffff00 to 0xffff03 and index 0x0, want 0xffff00 to 0xffff01": func(q *rigQP) { q.post(header(opSend, 0, 2, 0, 0), 3000) },
	} {
		a, b := pairOn(t, NewP7())
		a.r.tolerant = true
		b.postReceive(b.memory, b.key, 10)
		do(a)
		a.r.reported(t, want)
	}
}

// TestToggle arms a CQ of P7 with the toggle of the last notification, and with an older one.
func TestToggle(t *testing.T) {
	a, b := pairOn(t, NewP7())
	deliver := func() {
		b.postReceive(b.memory, b.key, 100)
		a.send(0, 0, 1)
	}
	arm := func(toggle uint32) {
		b.r.ringDoorbell(b.dpi, doorbellCQArmAll, b.cq.n, toggle<<25|b.cq.ci%b.cq.depth)
	}
	notification := func(i uint64) []byte { return b.r.bytes(b.r.nqAddr+i*entrySize, entrySize) }
	arm(0)
	deliver()
	if e := notification(0); e[0] != notifyCQ|1<<6 || e[8] != 1 {
		t.Errorf("notification %x, want one with toggle 1", e)
	}
	b.cq.want(completeReceive, 0)
	arm(0)
	deliver()
	if e := notification(1); e[8] != 0 {
		t.Errorf("notification %x after a doorbell with an old toggle, want none", e)
	}
	b.cq.want(completeReceive, 0)
	arm(1)
	deliver()
	if e := notification(1); e[0] != notifyCQ|2<<6 || e[8] != 1 {
		t.Errorf("notification %x, want one with toggle 2", e)
	}
}

// TestCompletionsOfFramesP7 strips a tag on P7.
func TestCompletionsOfFramesP7(t *testing.T) {
	a, b := cardsOn(t, NewP7())
	b.configure(0x2)
	sent := frame(b.mac, a.mac, ethernet.UDP, []byte("tagged"))
	a.transmit([4]uint32{txIPChecksum | txL4Checksum, 0, 0, 1<<28 | 0x2005}, sent)
	got, e, ext := b.receive()
	if len(got) != len(sent) || e[0]&0x3f != completeRxP7 || le.Uint32(e[8:])>>28 != 9 || le.Uint32(ext[8:])>>16 != 0x2005 {
		t.Errorf("frame %x with %x and %x, want one without its tag 0x2005", got, e, ext)
	}
}
