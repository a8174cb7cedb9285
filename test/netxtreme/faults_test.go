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
		"first explode":          "unknown fault, want one of doorbells, fail-next, fail-qp, port-down, port-up, silent",
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
