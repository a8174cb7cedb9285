// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"strings"
	"testing"

	"purerdma/test/pci"
)

// TestFaults injects each fault.
func TestFaults(t *testing.T) {
	a, b := pair(t)
	f := a.r.d.fabric
	a.r.d.o.Name = "first"
	fault := func(line string) {
		t.Helper()
		w := strings.Fields(line)
		if err := f.Fault(w[0], w[1], w[2:]); err != nil {
			t.Fatalf("Fault(%q): %v", line, err)
		}
	}
	b.postReceive(b.memory, b.key, 10)
	fault("first silent 1")
	a.send(flagSignaled, 0, 1)
	if e := b.cq.poll(); e != nil {
		t.Errorf("completion %x while the device is silent, want none", e)
	}
	fault("first silent 0")
	wait(t, a)
	a.cq.want(completeRequest, statusOK)

	failed := func(q *rigQP) {
		t.Helper()
		if e := q.r.event(); e[9] != eventQPError || le.Uint32(e[4:]) != q.n {
			t.Errorf("event %x, want one of QP %#x", e, q.n)
		}
	}
	async := a.r.alloc(nqDepth * entrySize)
	ring := a.r.ring(ringNotify, async, nqDepth, 0)
	a.r.hwrm(0x17, func(in []byte) {
		le.PutUint32(in[0x18:], 0x4000)
		le.PutUint16(in[0x50:], ring)
	})
	link := func() byte { return a.r.hwrm(0x27, nil)[8] }
	for i, tc := range []struct {
		fault string
		state byte
		data  uint32
	}{{"first port-down", 0, 0}, {"first port-up", linkUp, 1}} {
		fault(tc.fault)
		e := a.r.bytes(async+uint64(i)*entrySize, entrySize)
		if le.Uint16(e) != notifyAsync || e[8] != 1 || le.Uint32(e[12:]) != tc.data || link() != tc.state {
			t.Errorf("%s: event %x with link %d, want data %d with link %d", tc.fault, e, link(), tc.data, tc.state)
		}
	}

	config := a.r.hwrm(0x1a6, nil)
	register, mask, shift, depth := le.Uint32(config[0x10:]), le.Uint32(config[0x1c:]), config[0x20], le.Uint32(config[0x2c:])
	a.r.write(0, fifoMap, uint64(register&^0xfff), 4)
	fault("first doorbells 300")
	b4 := make([]byte, 4)
	a.r.d.ReadRegion(0, uint64(fifoWindow+register&0xffc), b4)
	if n := depth - le.Uint32(b4)&mask>>shift; n != 300 {
		t.Errorf("the FIFO has %d doorbells, want 300", n)
	}
	a.r.d.ReadRegion(0, uint64(fifoWindow+register&0xffc)+4, b4)
	if n := le.Uint32(b4); n != 0 {
		t.Errorf("the register behind the FIFO's = %#x, want 0", n)
	}

	fault("first fail-next 0x80 8")
	a.send(0, 0, 1)
	a.cq.want(completeRequest, statusRemoteOp)
	a.cq.want(completeTerminal, 0)
	failed(a)

	c, d := a.r.qp(typeRC), b.r.qp(typeRC)
	connect(c, d)
	fault("first fail-qp 0x81")
	c.cq.want(completeTerminal, 0)
	failed(c)
	for line, text := range map[string]string{
		"none silent 1":          "no such device",
		"first explode":          "unknown fault, want one of doorbells, fail-next, fail-qp, port-down, port-up, removing, silent",
		"first silent":           "want the numbers YES",
		"first fail-qp 9":        "no QP 0x9 in RTS",
		"first doorbells 11264":  "the FIFO has 11264 entries",
		"first fail-next 0x80 1": "no QP 0x80 in RTS",
	} {
		w := strings.Fields(line)
		if err := f.Fault(w[0], w[1], w[2:]); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("Fault(%q) = %v, want %q", line, err, text)
		}
	}
}

var _ pci.Fabric = (*Fabric)(nil)

// TestLostAnswers loses the answers to requests. The requests are repeated, and the peer executes them once.
func TestLostAnswers(t *testing.T) {
	a, b := pair(t)
	f := a.r.d.fabric
	b.r.d.o.Name = "second"
	silent := func(yes string) {
		t.Helper()
		if err := f.Fault("second", "silent", []string{yes}); err != nil {
			t.Fatalf("Fault(silent %s): %v", yes, err)
		}
	}
	b.postReceive(b.memory, b.key, 10)
	word := b.r.bytes(b.memory+64, 8)
	le.PutUint64(word, 40)
	add := header(opFetchAdd, flagSignaled, 3, b.key, 0)
	le.PutUint64(add[8:], b.memory+64)
	le.PutUint64(add[16:], 2)
	read := sge(header(opRead, flagSignaled, 3, 0, 8), a.memory+8, a.key, 8)
	le.PutUint64(read[16:], b.memory+64)
	le.PutUint32(read[24:], b.key)
	for _, post := range []func(){
		func() { a.send(flagSignaled, 0, 1) },
		func() { a.post(sge(add, a.memory, a.key, 8), 8) },
		func() { a.post(read, 8) },
	} {
		silent("1")
		post()
		if e := a.cq.poll(); e != nil {
			t.Errorf("completion %x without an answer, want none", e)
		}
		silent("0")
		wait(t, a)
		a.cq.want(completeRequest, statusOK)
	}
	b.cq.want(completeReceive, statusOK)
	if e := b.cq.poll(); e != nil {
		t.Errorf("completion %x of a repeated request, want none", e)
	}
	if old, now, got := le.Uint64(a.r.bytes(a.memory, 8)), le.Uint64(word), le.Uint64(a.r.bytes(a.memory+8, 8)); old != 40 || now != 42 || got != 42 {
		t.Errorf("fetch and add returned %d and left %d, the READ returned %d, want 40, 42 and 42", old, now, got)
	}
}

// TestRemoving rings doorbells of missing queues while the driver is being removed. They are no violations.
func TestRemoving(t *testing.T) {
	r := newRig(t, nil)
	f := r.d.fabric
	r.d.o.Name = "first"
	if err := f.Fault("first", "removing", []string{"1"}); err != nil {
		t.Fatalf("Fault(removing 1): %v", err)
	}
	for _, kind := range []uint32{doorbellSQ, doorbellRQ, doorbellSRQ, doorbellCQArmAll, doorbellPushStart, doorbellPushEnd} {
		r.ringDoorbell(3, kind, 0x777, 0)
	}
}
