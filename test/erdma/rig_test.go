// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"slices"
	"testing"

	"purerdma/test/pci"
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

const (
	memoryBase = 0x10_0000
	memorySize = 1 << 20
)

// rig is a driver of one device.
type rig struct {
	t          *testing.T
	d          *Device
	mem        *hostMemory
	used       uint64
	vectors    []int
	violations []pci.Violation
	tolerant   bool // whether violations are expected

	sq, cq, ceq, aeq uint64 // addresses of the command queue, and of the queues of events
	cmdPI            uint16
	cmdCI            uint32
	aeqCI            uint32
	ceqCI            uint32
	keys             uint32

	// Bits of words of CREATE_CQ and CREATE_QP that select pages of doorbells, and the pages.
	cqFlags, qpFlags [2]uint32
}

// Depths of the rig's queues.
const (
	cmdDepth = 32
	eqDepth  = 16
)

// newRig creates an initialized device with an event queue for completions, number 1.
func newRig(t *testing.T, f pci.Fabric) *rig {
	t.Helper()
	if f == nil {
		f = New()
	}
	r := &rig{t: t, mem: &hostMemory{memoryBase, make([]byte, memorySize)}}
	r.d = f.Connect(pci.Options{
		Name: "dev", Memory: r.mem, MAC: [6]byte{2, 3, 4, 5, 6, 7},
		Interrupt: func(v int) { r.vectors = append(r.vectors, v) },
		Violation: func(v pci.Violation) { r.violations = append(r.violations, v) },
	}).(*Device)
	t.Cleanup(func() {
		if len(r.violations) > 0 && !r.tolerant {
			t.Errorf("violations = %v, want none", r.violations)
		}
	})
	r.sq, r.cq = r.alloc(cmdDepth*blockSize), r.alloc(cmdDepth*cqeSize)
	r.aeq, r.ceq = r.alloc(eqDepth*eqeSize), r.alloc(eqDepth*eqeSize)
	r.initialize()
	r.must(1, 0, func(in []byte) {
		le.PutUint64(in[8:], r.ceq)
		in[16], in[17], in[18], in[19] = 1, 1, 4, 1
	})
	return r
}

// initialize writes the registers.
func (r *rig) initialize() {
	r.cmdPI, r.cmdCI, r.aeqCI, r.ceqCI = 0, 0, 0, 0
	eq := r.alloc(eqDepth * eqeSize)
	for reg, v := range map[uint64]uint64{
		regCmdSQAddrL: r.sq, regCmdCQAddrL: r.cq, regCmdEQAddrL: eq, regAEQAddrL: r.aeq,
		regCmdDepth: cmdDepth, regCmdEQDepth: eqDepth, regAEQDepth: eqDepth,
	} {
		r.write(reg, v, 4)
	}
	r.write(regControl, bitInit, 4)
	if r.read(regStatus) != bitInit {
		r.t.Fatalf("status register = %#x, want initialized", r.read(regStatus))
	}
}

// alloc returns the address of a zeroed page or more.
func (r *rig) alloc(n uint64) uint64 {
	addr := memoryBase + r.used
	r.used += (n + pageSize - 1) &^ (pageSize - 1)
	if r.used > memorySize {
		r.t.Fatal("the rig has no more memory")
	}
	return addr
}

func (r *rig) bytes(addr uint64, n int) []byte { return r.mem.Bytes(addr, n) }

// write stores n bytes of a number to BAR 0.
func (r *rig) write(off, v uint64, n int) {
	r.d.WriteRegion(0, off, le.AppendUint64(nil, v)[:n])
}

func (r *rig) read(off uint64) uint32 {
	b := make([]byte, 4)
	r.d.ReadRegion(0, off, b)
	return le.Uint32(b)
}

// exec executes a command, and returns its answer and status.
func (r *rig) exec(module, code uint8, fill func(in []byte)) (answer, status) {
	r.t.Helper()
	in := make([]byte, maxCommand)
	if fill != nil {
		fill(in)
	}
	start := r.cmdPI
	r.cmdPI += maxBlocks
	le.PutUint64(in, 3<<52|uint64(module)<<24|uint64(code)<<16|uint64(r.cmdPI))
	for i := range maxBlocks {
		copy(r.bytes(r.sq+uint64((start+uint16(i))%cmdDepth)*blockSize, blockSize), in[i*blockSize:])
	}
	r.write(regCmdSQ, uint64(r.cmdPI), 8)
	e := r.bytes(r.cq+uint64(r.cmdCI%cmdDepth)*cqeSize, cqeSize)
	hdr := be.Uint32(e)
	if owner := hdr >> 31; owner == r.cmdCI/cmdDepth%2 {
		r.t.Fatalf("command %d/%d has no completion", module, code)
	}
	r.cmdCI++
	if be.Uint32(e[4:]) != uint32(start) || uint8(hdr>>8) != queueCommand {
		r.t.Fatalf("completion of command %d/%d = %x, want index %d", module, code, e, start)
	}
	word := func(i int) uint64 { return uint64(be.Uint32(e[8+4*i:])) }
	return answer{word(0) | word(1)<<32, word(2) | word(3)<<32}, status(hdr)
}

// must executes a command that has to succeed.
func (r *rig) must(module, code uint8, fill func(in []byte)) answer {
	r.t.Helper()
	out, st := r.exec(module, code, fill)
	if st != statusOK {
		r.t.Fatalf("command %d/%d = status %d, want 0: %v", module, code, st, r.violations)
	}
	return out
}

// violated returns the violations since the last call.
func (r *rig) violated() []pci.Violation {
	v := r.violations
	r.violations = nil
	return v
}

// testCQ is a completion queue of 16 entries.
type testCQ struct {
	r      *rig
	n, ci  uint32
	buffer uint64
	record uint64
}

const cqDepth = 16

func (r *rig) newCQ(n uint32) *testCQ {
	r.t.Helper()
	q := &testCQ{r: r, n: n, buffer: r.alloc(cqDepth * cqeSize), record: r.alloc(dbRecordSize)}
	le.PutUint64(r.bytes(q.record, 8), 0xff<<56|uint64(n)<<32|3<<28)
	r.must(0, 4, func(in []byte) {
		le.PutUint32(in[8:], 4<<24|n)
		le.PutUint32(in[12:], uint32(q.buffer))
		le.PutUint32(in[20:], 1<<16|1|r.cqFlags[0])
		le.PutUint64(in[24:], q.record)
		le.PutUint32(in[36:], r.cqFlags[1])
	})
	return q
}

// poll returns the next completion, or nil if there is none.
func (q *testCQ) poll() *completion {
	e := q.r.bytes(q.buffer+uint64(q.ci%cqDepth)*cqeSize, cqeSize)
	hdr := be.Uint32(e)
	if hdr>>31 == q.ci/cqDepth%2 {
		return nil
	}
	q.ci++
	return &completion{
		queue: uint8(hdr >> 8), opcode: uint8(hdr >> 16), status: status(hdr),
		index: be.Uint32(e[4:]), qpn: be.Uint32(e[8:]), imm: [4]byte(e[12:]), size: be.Uint32(e[16:]),
	}
}

// arm arms the queue.
func (q *testCQ) arm(solicited bool) {
	v := uint64(q.n)<<32 | 1<<31 | uint64(q.ci)
	if solicited {
		v |= 1 << 30
	}
	le.PutUint64(q.r.bytes(q.record, 8), v)
	q.r.write(cqDoorbells, v, 8)
}

// completionEvent returns the number of the CQ in the next event, or 0 if there is none. It arms the
// event queue.
func (r *rig) completionEvent() uint32 {
	e := le.Uint64(r.bytes(r.ceq+uint64(r.ceqCI%eqDepth)*eqeSize, 8))
	if uint32(bits(e, 31, 31)) == r.ceqCI/eqDepth%2 {
		return 0
	}
	r.ceqCI++
	r.write(regCEQ+8, 1<<31|uint64(uint16(r.ceqCI)), 8)
	return uint32(bits(e, 19, 0))
}

// event returns the type and the object of the next asynchronous event.
func (r *rig) event() (kind uint8, n uint32, ok bool) {
	b := r.bytes(r.aeq+uint64(r.aeqCI%eqDepth)*eqeSize, eqeSize)
	e := le.Uint32(b)
	if e>>31 == r.aeqCI/eqDepth%2 {
		return 0, 0, false
	}
	r.aeqCI++
	r.write(regAEQ, 1<<31|uint64(r.aeqCI), 8)
	return uint8(e >> 16), le.Uint32(b[4:]), true
}

// region is a memory region of one page.
type region struct {
	key  uint32
	addr uint64
}

const allRights = remoteAtomic | localRead | localWrite | remoteRead | remoteWrite

// reg registers a new page for PD 1.
func (r *rig) reg(rights rights) region {
	m := region{addr: r.alloc(pageSize)}
	m.key = r.regMR(mrNormal, rights, 1, m.addr, pageSize, 12<<27|1, []uint64{m.addr})
	return m
}

// regMR registers memory with a page list, and returns its key.
func (r *rig) regMR(kind uint8, rights rights, pd uint32, addr uint64, n, cfg2 uint32, list []uint64) uint32 {
	r.t.Helper()
	r.keys++
	index := r.keys
	r.must(0, 8, func(in []byte) {
		cfg0 := index | 0x11<<20
		if kind != mrFast {
			cfg0 |= 1 << 31
		}
		le.PutUint32(in[8:], cfg0)
		le.PutUint32(in[12:], pd<<12|uint32(kind)<<6|uint32(rights)<<1)
		le.PutUint64(in[16:], addr)
		le.PutUint32(in[24:], n)
		le.PutUint32(in[28:], cfg2)
		for i, a := range list {
			le.PutUint64(in[32+8*i:], a)
		}
	})
	return index<<8 | 0x11
}

// testQP is a QP with queues of 16 blocks and 4 receives.
type testQP struct {
	r         *rig
	n         uint32
	cookie    uint32
	cq        *testCQ
	sq, rq    uint64
	sendPI    uint16
	receivePI uint16
	sdb, rdb  uint64 // offsets of its doorbells
}

const (
	sqDepth = 16
	rqDepth = 4
)

func (r *rig) newQP(n uint32) *testQP {
	r.t.Helper()
	q := &testQP{r: r, n: n, cq: r.newCQ(n), sq: r.alloc(sqDepth * blockSize), rq: r.alloc(rqDepth * rqeSize)}
	q.sdb, q.rdb = sqDoorbells, rqDoorbells
	record := r.alloc(2 * dbRecordSize)
	out := r.must(0, 1, func(in []byte) {
		le.PutUint32(in[8:], 4<<20|n)
		le.PutUint32(in[12:], 2<<20|1)
		le.PutUint32(in[16:], n|r.qpFlags[0])
		le.PutUint32(in[20:], n)
		le.PutUint32(in[112:], r.qpFlags[1])
		le.PutUint64(in[24:], q.sq)
		le.PutUint64(in[32:], q.rq)
		le.PutUint32(in[40:], 1<<1)
		le.PutUint32(in[44:], 1<<1)
		le.PutUint64(in[48:], record)
		le.PutUint64(in[56:], record+dbRecordSize)
	})
	q.cookie = uint32(out[0])
	return q
}

// modify executes MODIFY_QP.
func (q *testQP) modify(to state, cookie uint32, e endpoints) status {
	q.r.t.Helper()
	_, st := q.r.exec(0, 3, func(in []byte) {
		le.PutUint32(in[8:], uint32(to)<<24|q.n)
		le.PutUint32(in[12:], cookie)
		copy(in[16:], e.destination[:])
		copy(in[20:], e.source[:])
		copy(in[24:], e.sourcePort[:])
		copy(in[26:], e.destinationPort[:])
	})
	return st
}

// port is the port of the client of the next connection.
var port byte

// connect connects two QPs.
func connect(t *testing.T, client, server *testQP) {
	t.Helper()
	port++
	e := endpoints{[4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}, [2]byte{0x80, port}, [2]byte{1, 2}}
	if st := server.modify(stateRTS, client.cookie, e.reversed()); st != statusOK {
		t.Fatalf("modify(server, RTS) = %d, want 0", st)
	}
	if st := client.modify(stateRTS, server.cookie, e); st != statusOK {
		t.Fatalf("modify(client, RTS) = %d, want 0", st)
	}
}

// newPair returns two connected QPs of two devices.
func newPair(t *testing.T) (a, b *testQP) {
	t.Helper()
	f := New()
	a, b = newRig(t, f).newQP(5), newRig(t, f).newQP(7)
	connect(t, a, b)
	return a, b
}

// wqe is a request without its header.
type wqe struct {
	opcode uint8
	flags  uint64 // bits of the header
	sgl    int
	body   []byte // from offset 8 on
}

// Flags of a request.
const (
	signaled  = 1 << 22
	solicited = 1 << 23
	inline    = 1 << 25
)

// push writes a request without ringing.
func (q *testQP) push(w wqe) {
	b := make([]byte, 8, maxCommand)
	b = append(b, w.body...)
	blocks := (len(b) + blockSize - 1) / blockSize
	b = b[:blocks*blockSize]
	start := q.sendPI
	q.sendPI += uint16(blocks)
	le.PutUint64(b, uint64(w.sgl)<<56|uint64(blocks-1)<<52|uint64(q.n)<<32|uint64(w.opcode)<<27|w.flags|uint64(q.sendPI))
	for i := range blocks {
		copy(q.r.bytes(q.sq+uint64((start+uint16(i))%sqDepth)*blockSize, blockSize), b[i*blockSize:])
	}
}

func (q *testQP) ring() { q.r.write(q.sdb, uint64(q.n)<<32|uint64(q.sendPI), 8) }

// post posts requests with one doorbell.
func (q *testQP) post(list ...wqe) {
	for _, w := range list {
		q.push(w)
	}
	q.ring()
}

// recv posts a receive.
func (q *testQP) recv(m region, off uint64, n uint32) {
	b := q.r.bytes(q.rq+uint64(q.receivePI%rqDepth)*rqeSize, rqeSize)
	q.receivePI++
	clear(b)
	le.PutUint16(b, q.receivePI)
	le.PutUint32(b[4:], q.n)
	le.PutUint64(b[16:], m.addr+off)
	le.PutUint32(b[24:], n)
	le.PutUint32(b[28:], m.key)
	q.r.write(q.rdb, le.Uint64(b), 8)
}

// body returns the words of a request from offset 8 on.
func body(words ...uint32) (b []byte) {
	for _, w := range words {
		b = le.AppendUint32(b, w)
	}
	return b
}

func (m region) sge(off uint64, n uint32) []byte {
	return body(uint32(m.addr+off), uint32((m.addr+off)>>32), n, m.key)
}

// sendOf returns a SEND of a part of a region. word is immediate data or a key.
func sendOf(opcode uint8, word uint32, m region, off uint64, n uint32) wqe {
	return wqe{opcode, signaled, 1, slices.Concat(body(word, n), m.sge(off, n))}
}

// writeOf returns a WRITE from one region to another.
func writeOf(opcode uint8, word uint32, from, to region, n uint32) wqe {
	return wqe{opcode, signaled, 1, slices.Concat(body(word, n, to.key, uint32(to.addr), uint32(to.addr>>32), 0), from.sge(0, n))}
}

// readOf returns a READ from one region into another.
func readOf(opcode uint8, word uint32, from, to region, n uint32) wqe {
	return wqe{opcode, signaled, 0, slices.Concat(body(word, n, to.key, uint32(to.addr), uint32(to.addr>>32), 0), from.sge(0, n))}
}

// atomicOf returns an atomic request.
func atomicOf(opcode uint8, operand, compare uint64, remote, result region) wqe {
	return wqe{opcode, signaled, 0, slices.Concat(body(0, 0, uint32(operand), uint32(operand>>32), uint32(compare), uint32(compare>>32)), remote.sge(0, 0), result.sge(0, 8))}
}

// want checks the next completion of a QP.
func want(t *testing.T, q *testQP, w completion) {
	t.Helper()
	w.qpn = q.n
	got := q.cq.poll()
	if got == nil || *got != w {
		t.Errorf("completion of QP %#x = %+v, want %+v", q.n, got, w)
	}
}
