// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"fmt"
	"testing"

	"purerdma/test/connectx/prm"
)

// hostMemory is memory that starts at an address.
type hostMemory struct {
	base uint64
	b    []byte
}

func (m *hostMemory) Bytes(addr uint64, n int) []byte {
	off := addr - m.base
	if n < 0 || off > uint64(len(m.b)) || uint64(n) > uint64(len(m.b))-off {
		return nil
	}
	return m.b[off:][:n:n]
}

const memoryBase = 0x10_0000

// rig is a driver that issues single commands.
type rig struct {
	t          *testing.T
	d          *Device
	mem        *hostMemory
	used       uint64 // used bytes of the memory
	vectors    []int  // raised vectors
	violations []Violation
	records    []string
	tolerant   bool // whether violations are expected
}

// rigMemory is the size of a rig's memory.
const rigMemory = 2 << 20

// newRig creates a strict device with memory.
func newRig(t *testing.T) *rig { return newRigOn(t, nil) }

func newRigOn(t *testing.T, f *Fabric) *rig {
	r := &rig{t: t, mem: &hostMemory{memoryBase, make([]byte, rigMemory)}}
	r.d = New(Config{
		Name: "hca", Memory: r.mem, Fabric: f,
		Interrupt: func(v int) { r.vectors = append(r.vectors, v) },
		Violation: func(v Violation) { r.violations = append(r.violations, v) },
		Trace:     func(rec Record) { r.records = append(r.records, rec.String()) },
	})
	t.Cleanup(func() {
		r.d.fabric.lock()
		defer r.d.fabric.unlock()
		if len(r.violations) > 0 && !r.tolerant {
			t.Errorf("violations = %v, want none", r.violations)
		}
		if t.Failed() {
			for _, s := range r.records {
				t.Log(s)
			}
		}
	})
	return r
}

// violated returns and clears the violations.
func (r *rig) violated() []Violation {
	r.d.fabric.lock() // a timer may report one
	defer r.d.fabric.unlock()
	v := r.violations
	r.violations = nil
	return v
}

// alloc returns the address of n zero bytes that start on a new page.
func (r *rig) alloc(n int) uint64 {
	r.t.Helper()
	a := r.mem.base + r.used
	r.used += (uint64(n) + 0xfff) &^ 0xfff
	if r.used > uint64(len(r.mem.b)) {
		r.t.Fatal("the rig's memory is exhausted")
	}
	return a
}

// bytes returns memory of the rig.
func (r *rig) bytes(addr uint64, n int) []byte {
	r.t.Helper()
	b := r.mem.Bytes(addr, n)
	if b == nil {
		r.t.Fatalf("no memory of %d bytes at %#x", n, addr)
	}
	return b
}

// pages returns the page list of memory.
func pages(addr uint64, n int) []byte {
	var b []byte
	for off := uint64(0); off < uint64(n); off += 4096 {
		b = binary.BigEndian.AppendUint64(b, addr+off)
	}
	return b
}

// command issues a command of n bytes that fill completes, followed by tail.
func (r *rig) command(opcode uint16, n int, tail []byte, fill func(in []byte)) ([]byte, error) {
	in := make([]byte, n, n+len(tail))
	prm.HeaderIn.Opcode.Set(in, uint64(opcode))
	if fill != nil {
		fill(in)
	}
	out := r.d.Exec(append(in, tail...), 0x400)
	if s := prm.Status(prm.HeaderOut.Status.Get(out)); s != prm.StatusOK {
		return out, fmt.Errorf("%s: %w", CommandName(opcode), statusError(s))
	}
	return out, nil
}

// statusError is a status as an error.
type statusError prm.Status

func (e statusError) Error() string { return prm.Status(e).String() }

// must issues a command that has to succeed.
func (r *rig) must(opcode uint16, n int, tail []byte, fill func(in []byte)) []byte {
	r.t.Helper()
	out, err := r.command(opcode, n, tail, fill)
	if err != nil {
		r.t.Fatalf("command: %v, last record %v", err, r.records[len(r.records)-1])
	}
	return out
}

// object issues a command that creates an object without parents.
func (r *rig) object(opcode uint16) uint32 {
	r.t.Helper()
	return uint32(prm.ObjectOut.Number.Get(r.must(opcode, 16, nil, nil)))
}

// on issues a command that only contains the number of an object.
func (r *rig) on(opcode uint16, n uint32) error {
	_, err := r.command(opcode, 16, nil, func(in []byte) { prm.ObjectIn.Number.Set(in, uint64(n)) })
	return err
}

// testEQ is an event queue of the rig.
type testEQ struct {
	n, uar, ci uint32
	buf        uint64
	log        uint
}

func (r *rig) eq(uar uint32, vector int, events ...prm.EventType) *testEQ {
	r.t.Helper()
	e := &testEQ{uar: uar, log: 4, buf: r.alloc(prm.EQESize << 4)}
	for i := range 1 << e.log {
		r.bytes(e.buf, prm.EQESize<<e.log)[i*prm.EQESize+prm.EQESize-1] = 1
	}
	out := r.must(prm.OpCreateEQ, 0x110, pages(e.buf, prm.EQESize<<e.log), func(in []byte) {
		c := prm.CreateEQIn.Context.Of(in)
		prm.EQC.LogEQSize.Set(c, uint64(e.log))
		prm.EQC.UARPage.Set(c, uint64(uar))
		prm.EQC.Intr.Set(c, uint64(vector))
		for _, typ := range events {
			mask := prm.CreateEQIn.Events.Of(in)[typ/64*8:]
			binary.BigEndian.PutUint64(mask, binary.BigEndian.Uint64(mask)|1<<(typ%64))
		}
	})
	e.n = uint32(prm.EQNumber.Get(out))
	r.arm(e, true)
	return e
}

// arm sends the rig's consumer index to the device.
func (r *rig) arm(e *testEQ, arm bool) {
	off := RegisterEQ
	if arm {
		off = RegisterEQArm
	}
	r.d.Ring(e.uar, off, binary.BigEndian.AppendUint32(nil, e.n<<24|e.ci&0xffffff))
}

// next returns the next event, or nil if there is none.
func (r *rig) next(e *testEQ) []byte {
	v := r.bytes(e.buf+uint64(e.ci&(1<<e.log-1))*prm.EQESize, prm.EQESize)
	if uint32(prm.EQE.Owner.Get(v)) != e.ci>>e.log&1 {
		return nil
	}
	e.ci++
	return append([]byte(nil), v...)
}
