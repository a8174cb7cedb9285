// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"encoding/binary"
	"strings"
	"testing"

	"purerdma/test/pci"
)

// TestFunction checks the identity of the function and its registers.
func TestFunction(t *testing.T) {
	r := newRig(t, nil)
	config := func(off uint64, n int) uint64 {
		b := make([]byte, 8)
		r.d.ReadRegion(pci.ConfigRegion, off, b[:n])
		return binary.LittleEndian.Uint64(b)
	}
	if v := config(0, 4); v != 0x107f_1ded {
		t.Errorf("IDs = %#x, want 107f:1ded", v)
	}
	for bar, size := range map[uint64]uint64{0: barSize, 2: 16 << 10} {
		r.d.WriteRegion(pci.ConfigRegion, 0x10+4*bar, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		if v := config(0x10+4*bar, 8); ^(v&^0xf)+1 != size || v&0xf != 0x4 {
			t.Errorf("BAR %d = %#x, want %d bytes with 64 bits of address", bar, v, size)
		}
		if n := r.d.RegionSize(int(bar)); n != size {
			t.Errorf("RegionSize(%d) = %d, want %d", bar, n, size)
		}
	}
	if n := r.d.RegionSize(1) + r.d.RegionSize(6); n != 0 {
		t.Errorf("sizes of other regions = %d, want 0", n)
	}
	if low, high := r.read(regMACLow), r.read(regMACHigh); low != 0x04050607 || high != 0x0203 {
		t.Errorf("registers of the MAC address = %#x, %#x, want 0x4050607, 0x203", low, high)
	}
	r.newCQ(3)
	r.write(regControl, bitReset, 4)
	if v := r.read(regStatus); v != bitReset || len(r.d.cqs) != 0 {
		t.Errorf("status after a reset = %#x with %d CQs, want %#x with none", v, len(r.d.cqs), bitReset)
	}
	r.write(sqDoorbells, 0, 8) // the program may not know of the reset
	r.initialize()
	r.must(0, 0, nil)
	r.d.Reset()
	if v := r.read(regStatus); v != 0 {
		t.Errorf("status after a reset of the function = %#x, want 0", v)
	}
}

// TestCommandEvents checks that the driver gets an interrupt for a command if it has armed the
// completion queue.
func TestCommandEvents(t *testing.T) {
	r := newRig(t, nil)
	if len(r.vectors) != 0 {
		t.Fatalf("vectors = %v, want none before the queue is armed", r.vectors)
	}
	r.must(1, 2, nil)
	r.write(regCmdCQ, 1<<31|uint64(r.cmdCI), 8)
	if len(r.vectors) != 0 {
		t.Errorf("vectors = %v, want none without a completion", r.vectors)
	}
	r.must(1, 2, nil)
	if len(r.vectors) != 1 || r.vectors[0] != 0 {
		t.Errorf("vectors = %v, want 0", r.vectors)
	}
	// A completion that is not consumed causes an event immediately, but no interrupt until the
	// event queue is armed.
	r.write(regCmdCQ, 1<<31|uint64(r.cmdCI-1), 8)
	if len(r.vectors) != 1 {
		t.Errorf("vectors = %v, want none before the event queue is armed", r.vectors)
	}
	r.write(regCEQ, 1<<31|1, 8)
	if len(r.vectors) != 2 {
		t.Errorf("vectors = %v, want two interrupts", r.vectors)
	}
}

// TestAnswers checks the answers of commands without objects.
func TestAnswers(t *testing.T) {
	r := newRig(t, nil)
	if a := r.must(0, 0, nil); bits(a[0], 47, 40) != logMaxCQE || bits(a[0], 31, 24)&capAtomic == 0 || bits(a[1], 27, 16) != queueBlocks {
		t.Errorf("QUERY_DEVICE = %#x", a)
	}
	if a := r.must(1, 2, nil); a[0] != firmwareVersion {
		t.Errorf("QUERY_FW_INFO = %#x, want %#x", a[0], firmwareVersion)
	}
	buffer := r.alloc(256)
	r.must(1, 4, func(in []byte) {
		le.PutUint64(in[16:], buffer)
		le.PutUint32(in[24:], 256)
	})
	if v := le.Uint16(r.bytes(buffer, 2)); v != 0x5566 {
		t.Errorf("GET_STATS: magic number %#x, want 0x5566", v)
	}
	r.must(1, 3, nil)
	r.must(1, 5, func(in []byte) { le.PutUint32(in[8:], 1<<31|12) })
}

// TestRefusedCommands checks that mistakes of a driver are refused and reported.
func TestRefusedCommands(t *testing.T) {
	cq := func(n, log, count, eqn uint32) func(in []byte) {
		return func(in []byte) {
			le.PutUint32(in[8:], log<<24|n)
			le.PutUint32(in[12:], memoryBase)
			le.PutUint32(in[20:], count<<16|eqn)
			le.PutUint64(in[24:], memoryBase)
		}
	}
	qp := func(n, cqn uint32, buffer uint64) func(in []byte) {
		return func(in []byte) {
			le.PutUint32(in[8:], 4<<20|n)
			le.PutUint32(in[12:], 2<<20|1)
			le.PutUint32(in[16:], cqn)
			le.PutUint32(in[20:], cqn)
			le.PutUint64(in[24:], buffer)
			le.PutUint64(in[32:], buffer)
			le.PutUint32(in[40:], 1<<1)
			le.PutUint32(in[44:], 1<<1)
			le.PutUint64(in[48:], memoryBase)
			le.PutUint64(in[56:], memoryBase)
		}
	}
	word := func(v uint32) func(in []byte) { return func(in []byte) { le.PutUint32(in[8:], v) } }
	for want, tc := range map[string]struct {
		module, code uint8
		fill         func(in []byte)
	}{
		"opcode 77 of module 1":          {1, 77, nil},
		"EQ 1 exists":                    {1, 0, func(in []byte) { in[16], in[17] = 1, 1 }},
		"EQ 0 with vector 1":             {1, 0, func(in []byte) { in[16] = 1 }},
		"EQ 32 with vector 1":            {1, 0, func(in []byte) { in[16], in[17] = 1, 32 }},
		"no memory for 16 events":        {1, 0, func(in []byte) { in[16], in[17], in[18] = 1, 2, 4 }},
		"EQ of 2^16 entries":             {1, 0, func(in []byte) { in[16], in[17], in[18] = 1, 2, 16 }},
		"no EQ 9":                        {1, 1, func(in []byte) { in[17] = 9 }},
		"EQ 1 has 2 CQs":                 {1, 1, func(in []byte) { in[17] = 1 }},
		"pages of 2^16 bytes":            {1, 5, word(16)},
		"27 bytes of memory":             {1, 4, func(in []byte) { le.PutUint64(in[16:], memoryBase); le.PutUint32(in[24:], 27) }},
		"are not one allocation":         {1, 9, func(in []byte) { le.PutUint16(in[14:], 129) }},
		"CQ 0x5 exists":                  {0, 4, cq(5, 4, 1, 1)},
		"CQ 0x0 exists, or":              {0, 4, cq(0, 4, 1, 1)},
		"no EQ 7":                        {0, 4, cq(6, 4, 1, 7)},
		"2^21 entries":                   {0, 4, cq(6, 21, 1, 1)},
		"2 pages without a table":        {0, 4, cq(6, 4, 2, 1)},
		"1 pages of 0x1000 bytes from":   {0, 4, cq(6, 8, 1, 1)},
		"doorbell page 0x9 is not":       {0, 4, func(in []byte) { cq(6, 4, 1, 1|1<<11)(in); le.PutUint32(in[36:], 9) }},
		"no memory for a doorbell":       {0, 4, func(in []byte) { cq(6, 4, 1, 1)(in); le.PutUint64(in[24:], 8) }},
		"no CQ 0x77":                     {0, 5, word(0x77)},
		"CQ 0x5 has 2 QPs":               {0, 5, word(5)},
		"QP 0x5 exists":                  {0, 1, qp(5, 5, memoryBase)},
		"no CQ 0x44 or 0x44":             {0, 1, qp(6, 0x44, memoryBase)},
		"send queue: 1 pages":            {0, 1, func(in []byte) { qp(6, 5, memoryBase)(in); le.PutUint32(in[8:], 9<<20|6) }},
		"receive queue: queue of 2^16":   {0, 1, func(in []byte) { qp(6, 5, memoryBase)(in); le.PutUint32(in[12:], 16<<20) }},
		"5 pages without a table":        {0, 1, func(in []byte) { qp(6, 5, memoryBase)(in); le.PutUint32(in[40:], 5<<1) }},
		"doorbell pages 0x9 and 0x0":     {0, 1, func(in []byte) { qp(6, 5, memoryBase)(in); in[19] |= 2; in[114] = 9 }},
		"no memory for doorbell records": {0, 1, func(in []byte) { qp(6, 5, memoryBase)(in); in[48] = 4 }},
		"DESTROY_QP: there is no QP 0x6": {0, 2, word(6)},
		"MODIFY_QP: there is no QP 0x6":  {0, 3, word(6)},
		"transition from IDLE to IDLE":   {0, 3, word(5)},
		"REFLUSH: there is no QP 0x6":    {0, 6, word(6)},
		"QP 0x5 is in IDLE":              {0, 6, word(5)},
		"region 0x1 exists":              {0, 8, word(1)},
		"region of kind 3":               {0, 8, func(in []byte) { in[8], in[12] = 9, 0xc0 }},
		"region of 0x0 bytes":            {0, 8, func(in []byte) { in[8] = 9; le.PutUint32(in[28:], 12<<27|1) }},
		"9 pages without a table, want":  {0, 8, func(in []byte) { in[8] = 9; le.PutUint32(in[28:], 12<<27|9) }},
		"pages of 2^11 bytes":            {0, 8, func(in []byte) { in[8], in[24] = 9, 1; le.PutUint32(in[28:], 11<<27|1) }},
		"0 pages, want 1":                {0, 8, func(in []byte) { in[8], in[24] = 9, 1; le.PutUint32(in[28:], 12<<27) }},
		"without the size of a table":    {0, 8, func(in []byte) { in[8], in[24] = 9, 1; le.PutUint32(in[28:], 12<<27|2<<20|1) }},
		"no region 0x9":                  {0, 9, word(9)},
	} {
		r := newRig(t, nil)
		r.tolerant = true
		r.newQP(5)
		r.newCQ(8)
		r.reg(localRead)
		if _, st := r.exec(tc.module, tc.code, tc.fill); st != statusGeneral {
			t.Errorf("%s: status = %d, want a general error", want, st)
		}
		if v := r.violated(); len(v) != 1 && want != "opcode 77 of module 1" || len(v) == 0 || !strings.Contains(v[0].Error(), want) {
			t.Errorf("violations = %v, want %q", v, want)
		}
	}
}

// TestConnectMistakes checks the transitions to RTS that are refused.
func TestConnectMistakes(t *testing.T) {
	a, b := newPair(t)
	a.r.tolerant, b.r.tolerant = true, true
	e := a.r.d.qps[a.n].ends
	c, d, late := a.r.newQP(8), b.r.newQP(9), a.r.newQP(10)
	other := endpoints{sourcePort: [2]byte{9, 9}}
	for want, do := range map[string]func() status{
		"transition from RTS to RTS":           func() status { return a.modify(stateRTS, b.cookie, e) },
		"another QP is connected from [10 0 0": func() status { return late.modify(stateRTS, b.cookie, e) },
		"the peer's cookie is": func() status {
			c.modify(stateRTS, 0, other)
			return d.modify(stateRTS, c.cookie+1, other.reversed())
		},
	} {
		if st := do(); st != statusGeneral {
			t.Errorf("%s: status = %d, want a general error", want, st)
		}
		v := append(a.r.violated(), b.r.violated()...)
		if len(v) != 1 || !strings.Contains(v[0].Error(), want) {
			t.Errorf("violations = %v, want %q", v, want)
		}
	}
}

// TestDoorbellMistakes checks that wrong stores to registers are reported.
func TestDoorbellMistakes(t *testing.T) {
	for want, do := range map[string]func(r *rig, q *testQP){
		"a store of 2 bytes to 0x10":         func(r *rig, q *testQP) { r.write(regControl, 1, 2) },
		"a store of 0x3 to the control":      func(r *rig, q *testQP) { r.write(regControl, 3, 4) },
		"a store of 0x1 to 0x4c":             func(r *rig, q *testQP) { r.write(regGroups, 1, 4) },
		"a store of 1 bytes to 0x0, where":   func(r *rig, q *testQP) { r.d.WriteRegion(2, 0, []byte{1}) },
		"EQ 9: a doorbell, but":              func(r *rig, q *testQP) { r.write(regCEQ+72, 0, 8) },
		"AEQ: a doorbell with consumer":      func(r *rig, q *testQP) { r.write(regAEQ, 1, 8) },
		"command queue: a doorbell":          func(r *rig, q *testQP) { r.write(regCmdSQ, 500, 8) },
		"a command with header 0x":           func(r *rig, q *testQP) { r.write(regCmdSQ, uint64(r.cmdPI+1), 8) },
		"CQ 0x0: a doorbell with consumer":   func(r *rig, q *testQP) { r.write(regCmdCQ, 1<<31|500, 8) },
		"doorbell 0x1000: a store of 4":      func(r *rig, q *testQP) { r.write(sqDoorbells, 0, 4) },
		"QP 0x6 does not exist":              func(r *rig, q *testQP) { r.write(sqDoorbells, 6<<32, 8) },
		"0x61000: QP 0x6 does not exist":     func(r *rig, q *testQP) { r.write(rqDoorbells, 6<<32, 8) },
		"CQ 0x6 does not exist":              func(r *rig, q *testQP) { r.write(cqDoorbells, 6<<32, 8) },
		"the page is not allocated":          func(r *rig, q *testQP) { r.write(extended, 5<<32, 8) },
		"a doorbell with index 0x11":         func(r *rig, q *testQP) { r.write(sqDoorbells, 5<<32|17, 8) },
		"a doorbell for receive 0x2":         func(r *rig, q *testQP) { r.write(rqDoorbells, 5<<32|2, 8) },
		"that does not arm it":               func(r *rig, q *testQP) { r.write(cqDoorbells, 5<<32, 8) },
		"CQ 0x5: a doorbell with consumer":   func(r *rig, q *testQP) { r.write(cqDoorbells, 5<<32|1<<31|1<<20, 8) },
		"but the doorbell record contains 0": func(r *rig, q *testQP) { clear(r.bytes(q.cq.record, 8)); r.write(cqDoorbells, 5<<32|1<<31, 8) },
		"initialization: command queue of 3": func(r *rig, q *testQP) { r.write(regCmdDepth, 3, 4); r.write(regControl, bitInit, 4) },
		"initialization: AEQ: event queue":   func(r *rig, q *testQP) { r.write(regAEQDepth, 0, 4); r.write(regControl, bitInit, 4) },
	} {
		r := newRig(t, nil)
		r.tolerant = true
		do(r, r.newQP(5))
		if v := r.violated(); len(v) != 1 || !strings.Contains(v[0].Error(), want) {
			t.Errorf("violations = %v, want %q", v, want)
		}
	}
}

// TestExtendedDoorbells uses pages of doorbells that the driver has allocated for one program.
func TestExtendedDoorbells(t *testing.T) {
	f := New()
	r := newRig(t, f)
	a := r.must(1, 8, nil)
	// The fields of the driver are called RDB and CDB, but it uses them in the other order.
	sdb, rdb, cdb := uint64(bits(a[0], 15, 0)), bits(a[0], 47, 32), bits(a[0], 63, 48)
	b := r.must(1, 8, nil)
	if b[0] == a[0] {
		t.Fatalf("ALLOC_DB twice = %#x, want different pages", b[0])
	}
	r.cqFlags, r.qpFlags = [2]uint32{1 << 11, uint32(rdb)}, [2]uint32{1 << 25, uint32(sdb<<16 | cdb)}
	q := r.newQP(5)
	q.sdb, q.rdb = sdb*pageSize+0x80, rdb*pageSize+0x20
	peer := newRig(t, f).newQP(6)
	connect(t, q, peer)
	m, to := r.reg(allRights), peer.r.reg(allRights)
	peer.recv(to, 0, 1)
	q.recv(m, 0, 1)
	le.PutUint64(r.bytes(q.cq.record, 8), 5<<32)
	r.write(cdb*pageSize, 5<<32|1<<31, 8)
	q.post(sendOf(opSend, 0, m, 0, 1))
	want(t, q, completion{opcode: opSend})
	if n := r.completionEvent(); n != 5 {
		t.Errorf("event of CQ %#x, want 0x5", n)
	}
	// Another program's pages.
	r.tolerant = true
	for _, off := range []uint64{bits(b[0], 15, 0), bits(b[0], 47, 32), bits(b[0], 63, 48)} {
		r.write(off*pageSize, 5<<32|1<<31, 8)
	}
	r.write(sqDoorbells, 5<<32, 8)
	if v := r.violated(); len(v) != 4 {
		t.Errorf("violations = %v, want 4", v)
	}
	r.must(1, 9, func(in []byte) {
		le.PutUint16(in[12:], uint16(cdb))
		le.PutUint16(in[14:], uint16(sdb))
		le.PutUint16(in[18:], uint16(rdb))
	})
	if again := r.must(1, 8, nil); again != a {
		t.Errorf("ALLOC_DB after FREE_DB = %#x, want %#x", again, a)
	}
}

// TestDoorbellsAfterReset rings the doorbells that the handler of vector 0 may ring after a reset. They have no effect.
// Linux frees the interrupt after it has reset the device.
func TestDoorbellsAfterReset(t *testing.T) {
	r := newRig(t, nil)
	r.write(regControl, bitReset, 4)
	for _, off := range []uint64{regAEQ, regCEQ, regCmdCQ} {
		r.write(off, 1<<31, 8)
		if v := r.violated(); len(v) != 0 {
			t.Errorf("violations of doorbell %#x after a reset = %v, want none", off, v)
		}
	}
	r.tolerant = true
	for _, off := range []uint64{regCEQ + 8, regCmdSQ} {
		r.write(off, 1<<31, 8)
		if v := r.violated(); len(v) != 1 {
			t.Errorf("violations of doorbell %#x after a reset = %v, want 1", off, v)
		}
	}
	r.d.Reset()
	for _, off := range []uint64{regAEQ, regCEQ, regCmdCQ} {
		r.write(off, 1<<31, 8)
		if v := r.violated(); len(v) != 1 {
			t.Errorf("violations of doorbell %#x before the initialization = %v, want 1", off, v)
		}
	}
	r.initialize()
	for _, off := range []uint64{regAEQ, regCEQ, regCmdCQ} {
		r.write(off, 1<<31|1, 8)
	}
	if v := r.violated(); len(v) == 0 {
		t.Error("violations of doorbells with wrong indices after the initialization = [], want some")
	}
}
