// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"encoding/binary"
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
	memorySize = 4 << 20
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
	seq        uint16

	request, response uint64
	nq                uint16 // notification queue of completions
	answers           uint16 // notification queue of the channel
	nqAddr            uint64
	channelNQ         uint64 // addresses
	channelCommands   uint64
	commandPI         uint16
	answerCI          uint32
	cookie            uint16
}

// Depths of the rig's queues.
const (
	nqDepth      = 64
	channelDepth = 64
)

// newRig creates a device with a registered driver and an open channel.
func newRig(t *testing.T, f pci.Fabric) *rig {
	t.Helper()
	if f == nil {
		f = New()
	}
	r := &rig{t: t, mem: &hostMemory{memoryBase, make([]byte, memorySize)}}
	r.d = f.Connect(pci.Options{
		Name: "dev", Memory: r.mem,
		Interrupt: func(v int) { r.vectors = append(r.vectors, v) },
		Violation: func(v pci.Violation) { r.violations = append(r.violations, v) },
		Trace:     nil,
	}).(*Device)
	t.Cleanup(func() {
		if len(r.violations) > 0 && !r.tolerant {
			t.Errorf("violations = %v, want none", r.violations)
		}
	})
	r.request, r.response = r.alloc(pageSize), r.alloc(pageSize)
	r.hwrm(0x1d, nil)
	r.openChannel()
	r.nqAddr = r.alloc(nqDepth * entrySize)
	r.nq = r.ring(ringNotify, r.nqAddr, nqDepth, 2)
	r.ringDoorbell(0, doorbellNQArm, uint32(r.nq), 0)
	r.must(0x80, 0x70, nil)
	return r
}

// openChannel describes a new channel to the device. The next command opens it.
func (r *rig) openChannel() {
	r.t.Helper()
	r.channelNQ, r.channelCommands = r.alloc(nqDepth*entrySize), r.alloc(channelDepth*entrySize)
	r.answers = r.ring(ringNotify, r.channelNQ, nqDepth, 1)
	r.commandPI, r.answerCI = 0, 0
	r.ringDoorbell(0, doorbellNQArm, uint32(r.answers), 0)
	r.write(0, regChannel, r.channelCommands, 4)
	r.write(0, regChannel+4, 0, 4)
	r.write(0, regChannel+8, channelDepth<<2|uint64(r.answers)<<16, 4)
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

// write stores n bytes of a number.
func (r *rig) write(bar int, off, v uint64, n int) {
	r.d.WriteRegion(bar, off, binary.LittleEndian.AppendUint64(nil, v)[:n])
}

// ringDoorbell stores a doorbell to the page of a DPI.
func (r *rig) ringDoorbell(dpi, kind, n, index uint32) {
	r.write(doorbellBAR, doorbellStart+uint64(dpi)*pageSize, uint64(kind)<<60|uint64(n)<<32|uint64(index), 8)
}

// ringL2 stores a doorbell of a ring of Ethernet.
func (r *rig) ringL2(kind uint32, n uint16, index uint32) {
	r.write(doorbellBAR, doorbellStart, uint64(kind)<<60|1<<56|uint64(n)<<32|uint64(index), 8)
}

// hwrmStatusOf executes a command of HWRM, and returns its answer and status.
func (r *rig) hwrmStatusOf(code uint16, fill func(in []byte)) ([]byte, commandStatus) {
	r.t.Helper()
	in := r.bytes(r.request, maxRequest)
	clear(in)
	clear(r.bytes(r.response, maxAnswer))
	r.seq++
	le.PutUint16(in, code)
	le.PutUint16(in[2:], noRing)
	le.PutUint16(in[4:], r.seq)
	le.PutUint64(in[8:], r.response)
	if fill != nil {
		fill(in)
	}
	r.write(0, 0, uint64(code)|shortRequest<<16, 4)
	r.write(0, 4, maxRequest<<16, 4)
	r.write(0, 8, r.request, 4)
	r.write(0, 12, 0, 4)
	r.write(0, regRequestTrigger, 1, 4)
	out := r.bytes(r.response, maxAnswer)
	n := int(le.Uint16(out[6:]))
	if n < answerHeader || le.Uint16(out[4:]) != r.seq || out[n-1] != 1 {
		r.t.Fatalf("answer of command %#x = %x, want one with sequence %d", code, out[:answerHeader], r.seq)
	}
	return slices.Clone(out[:n]), commandStatus(le.Uint16(out))
}

// hwrm executes a command of HWRM that succeeds.
func (r *rig) hwrm(code uint16, fill func(in []byte)) []byte {
	r.t.Helper()
	out, status := r.hwrmStatusOf(code, fill)
	if status != 0 {
		r.t.Fatalf("HWRM %s = status %#x, want success; violations %v", hwrmCommands[code].name, status, r.violations)
	}
	return out
}

// ring allocates a ring, and returns its number.
func (r *rig) ring(kind uint8, addr uint64, depth uint32, vector uint16, more ...func(in []byte)) uint16 {
	r.t.Helper()
	out := r.hwrm(0x50, func(in []byte) {
		in[0x14] = kind
		le.PutUint64(in[0x18:], addr)
		le.PutUint32(in[0x28:], depth)
		le.PutUint16(in[0x2c:], vector)
		for _, m := range more {
			m(in)
		}
	})
	return le.Uint16(out[8:])
}

// exec executes a command of RCFW, and returns its answer.
func (r *rig) exec(code uint8, size int, fill func(in []byte)) (answer [entrySize]byte) {
	r.t.Helper()
	in := make([]byte, (size+entrySize-1)/entrySize*entrySize)
	in[0], in[1] = code, uint8(len(in)/entrySize)
	r.cookie++
	le.PutUint16(in[4:], r.cookie)
	if fill != nil {
		fill(in)
	}
	first := r.commandPI == 0
	for i := 0; i < len(in); i += entrySize {
		copy(r.bytes(r.channelCommands+uint64(r.commandPI%channelDepth)*entrySize, entrySize), in[i:][:entrySize])
		r.commandPI++
	}
	prod := uint64(r.commandPI)
	if first {
		prod |= channelFirst
	}
	r.write(0, regChannelProd, prod, 4)
	r.write(0, regChannelTrigger, 1, 4)
	e := r.bytes(r.channelNQ+uint64(r.answerCI%nqDepth)*entrySize, entrySize)
	if e[8]&1 == uint8(r.answerCI/nqDepth%2) || e[0] != channelEvent || e[9] != code || le.Uint16(e[2:]) != r.cookie {
		r.t.Fatalf("answer of command %#x = %x, want one with cookie %#x", code, e, r.cookie)
	}
	r.answerCI++
	r.ringDoorbell(0, doorbellNQArm, uint32(r.answers), r.answerCI%nqDepth)
	return [entrySize]byte(e)
}

// must executes a command of RCFW that succeeds. It returns the number in the answer.
func (r *rig) must(code uint8, size int, fill func(in []byte)) uint32 {
	r.t.Helper()
	a := r.exec(code, size, fill)
	if a[1] != 0 {
		r.t.Fatalf("RCFW %s = status %d, want success; violations %v", rcfwCommands[code].name, a[1], r.violations)
	}
	return le.Uint32(a[4:])
}

// event returns the next event of the channel, or fails.
func (r *rig) event() []byte {
	r.t.Helper()
	e := r.bytes(r.channelNQ+uint64(r.answerCI%nqDepth)*entrySize, entrySize)
	if e[8]&1 == uint8(r.answerCI/nqDepth%2) {
		r.t.Fatal("there is no event")
	}
	r.answerCI++
	r.ringDoorbell(0, doorbellNQArm, uint32(r.answers), r.answerCI%nqDepth)
	return e
}

// rigCQ is a CQ of a rig.
type rigCQ struct {
	r     *rig
	n     uint32
	addr  uint64
	depth uint32
	ci    uint32
}

// cq creates a CQ of a DPI.
func (r *rig) cq(dpi, depth uint32) *rigCQ {
	r.t.Helper()
	c := &rigCQ{r: r, addr: r.alloc(uint64(depth) * cqeSize), depth: depth}
	c.n = r.must(0x09, 0x40, func(in []byte) {
		le.PutUint64(in[0x10:], 0xc000+c.addr)
		le.PutUint32(in[0x1c:], uint32(r.nq))
		le.PutUint32(in[0x20:], dpi)
		le.PutUint32(in[0x24:], depth)
		le.PutUint64(in[0x28:], c.addr)
	})
	return c
}

// poll returns the next completion, or nil.
func (c *rigCQ) poll() []byte {
	e := c.r.bytes(c.addr+uint64(c.ci%c.depth)*cqeSize, cqeSize)
	if e[0x18]&1 == uint8(c.ci/c.depth%2) {
		return nil
	}
	c.ci++
	return e
}

// want checks the type and the status of the next completion.
func (c *rigCQ) want(kind, status uint8) []byte {
	c.r.t.Helper()
	e := c.poll()
	if e == nil {
		c.r.t.Fatalf("there is no completion, want one of type %d", kind)
	}
	if e[0x18]>>1&0xf != kind || e[0x19] != status {
		c.r.t.Fatalf("completion of type %d with status %d, want type %d with status %d", e[0x18]>>1&0xf, e[0x19], kind, status)
	}
	return e
}

// rigQP is a QP of a rig.
type rigQP struct {
	r             *rig
	n             uint32
	dpi           uint32
	cq            *rigCQ
	sq, rq        uint64
	depth         uint32 // of both queues
	slots         uint32 // of the send queue, in the units of doorbells
	pi, receivePI uint32
	messages      uint32 // posted ones
	psn           uint32
	key           uint32 // of the memory
	memory        uint64
	gid           uint32
	mtu           uint32
}

const rigMemory = 64 << 10

// qp creates a QP of a type with memory.
func (r *rig) qp(kind uint8, more ...func(in []byte)) *rigQP {
	r.t.Helper()
	q := &rigQP{r: r, dpi: 3, depth: 16, mtu: 1024, cq: r.cq(3, 64)}
	q.sq, q.rq = r.alloc(uint64(q.depth)*(requestSize+searchSize)), r.alloc(uint64(q.depth)*receiveSize)
	flags := uint32(0)
	if q.slots = q.depth; r.d.p7() {
		q.slots, flags = q.depth*requestSize/slotSize, flagVariable
	}
	q.n = r.must(0x01, 0x68, func(in []byte) {
		le.PutUint64(in[0x10:], 0xabc0)
		in[0x1c] = kind
		le.PutUint32(in[0x20:], q.dpi)
		le.PutUint32(in[0x18:], flags)
		le.PutUint32(in[0x24:], q.slots)
		le.PutUint32(in[0x28:], q.depth)
		le.PutUint16(in[0x2e:], maxSGE)
		le.PutUint32(in[0x30:], q.cq.n)
		le.PutUint32(in[0x34:], q.cq.n)
		le.PutUint32(in[0x3c:], 7)
		le.PutUint64(in[0x40:], q.sq)
		le.PutUint64(in[0x48:], q.rq)
		for _, m := range more {
			m(in)
		}
	})
	q.memory = r.alloc(rigMemory)
	q.key = r.region(q.memory, rigMemory, localWrite|remoteRead|remoteWrite|remoteAtomic|bind)
	return q
}

// region registers memory with a table of its pages in reverse order of their use.
func (r *rig) region(addr, n uint64, rights rights) uint32 {
	r.t.Helper()
	table := r.alloc(pageSize)
	for i := range (n + pageSize - 1) / pageSize {
		le.PutUint64(r.bytes(table+8*i, 8), addr+i*pageSize|1)
	}
	key := r.must(0x0d, 0x20, func(in []byte) { le.PutUint32(in[0x1c:], 7) })
	r.must(0x0f, 0x38, func(in []byte) {
		in[0x10], in[0x11], in[0x12] = 12<<2|1, uint8(rights), 12
		le.PutUint32(in[0x14:], key)
		le.PutUint64(in[0x18:], table)
		le.PutUint64(in[0x20:], addr)
		le.PutUint64(in[0x28:], n)
	})
	return key
}

// address adds an address to the port, and returns its number.
func (r *rig) address(last byte) (n uint32, gid [16]byte) {
	gid = [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: last}
	n = r.must(0x11, 0x30, func(in []byte) {
		copy(in[0x10:], gid[:])
		slices.Reverse(in[0x10:0x20])
		copy(in[0x20:], []byte{2, 1, 4, 3, 6, 5})
	})
	return n, gid
}

// modify changes attributes of a QP.
func (q *rigQP) modify(to state, mask uint32, fill func(in []byte)) {
	q.r.t.Helper()
	q.r.must(0x03, 0x90, func(in []byte) {
		le.PutUint32(in[0x10:], mask|setState)
		le.PutUint32(in[0x14:], q.n)
		in[0x18] = byte(to) | networkIPv4<<6
		if fill != nil {
			fill(in)
		}
	})
}

// connect connects two QPs of RC.
func connect(a, b *rigQP) {
	a.r.t.Helper()
	addresses := [2][16]byte{}
	a.gid, addresses[0] = a.r.address(1)
	b.gid, addresses[1] = b.r.address(2)
	for i, q := range []*rigQP{a, b} {
		peer := []*rigQP{b, a}[i]
		q.psn = uint32(0xffff00 + i)
		q.modify(stateInit, setAccess, func(in []byte) { in[0x19] = 0xf })
		q.modify(stateRTR, setDGID|setSGID|setMTU|setReceivePSN|setMinRNR|setRemoteQPN, func(in []byte) {
			copy(in[0x20:], addresses[1-i][:])
			le.PutUint16(in[0x34:], uint16(q.gid))
			in[0x3f] = 2 << 4
			in[0x43] = 1
			le.PutUint32(in[0x44:], uint32(0xffff00+1-i))
			le.PutUint32(in[0x60:], peer.n)
		})
		q.modify(stateRTS, setTimeout|setRetryCount|setRNRRetry|setSendPSN, func(in []byte) {
			in[0x40], in[0x41], in[0x42] = 1, 2, 2
			le.PutUint32(in[0x48:], q.psn)
		})
	}
}

// sge appends an SGE.
func sge(b []byte, addr uint64, key, n uint32) []byte {
	return le.AppendUint32(le.AppendUint32(le.AppendUint64(b, addr), key), n)
}

// header returns the header of a request of slots, and of a length.
func header(opcode, flags uint8, slots int, imm, length uint32) []byte {
	b := []byte{opcode, flags, uint8(slots), 0}
	b = le.AppendUint32(le.AppendUint32(b, imm), length)
	return append(b, make([]byte, 2*slotSize-len(b))...)
}

// put puts a request into the send queue, without a doorbell. length is the number of bytes for
// packets, or -1 for a request without packets.
func (q *rigQP) put(w []byte, length int) {
	next := q.psn
	if length >= 0 {
		next += uint32(max(1, (length+int(q.mtu)-1)/int(q.mtu)))
	}
	if q.r.d.p7() {
		if length >= 0 {
			v := uint64(q.pi%q.slots)<<48 | uint64(next&psnMask)<<24 | uint64(q.psn&psnMask)
			le.PutUint64(q.r.bytes(q.sq+uint64(q.slots)*slotSize+uint64(q.messages%(q.slots/2))*messageSize, messageSize), v)
			q.messages++
		}
		for ; len(w) > 0; w = w[min(slotSize, len(w)):] {
			copy(q.r.bytes(q.sq+uint64(q.pi%q.slots)*slotSize, slotSize), append(slices.Clone(w), make([]byte, slotSize)...))
			q.pi++
		}
	} else {
		i := q.pi % q.depth
		b := q.r.bytes(q.sq+uint64(i)*requestSize, requestSize)
		clear(b)
		copy(b, w)
		s := q.r.bytes(q.sq+uint64(q.depth)*requestSize+uint64(i)*searchSize, searchSize)
		le.PutUint32(s, q.psn&psnMask)
		le.PutUint32(s[4:], next&psnMask)
		le.PutUint16(s[8:], uint16(i*8))
		q.pi++
	}
	q.psn = next
}

// post posts a request.
func (q *rigQP) post(w []byte, length int) {
	q.put(w, length)
	q.r.ringDoorbell(q.dpi, doorbellSQ, q.n, q.pi%q.slots)
}

// postReceive posts a receive of one SGE.
func (q *rigQP) postReceive(addr uint64, key, n uint32) {
	i := q.receivePI % q.depth
	b := q.r.bytes(q.rq+uint64(i)*receiveSize, receiveSize)
	clear(b)
	b[0], b[2] = 0x80, 3
	le.PutUint32(b[8:], i)
	copy(b[2*slotSize:], sge(nil, addr, key, n))
	q.receivePI++
	q.r.ringDoorbell(q.dpi, doorbellRQ, q.n, q.receivePI%q.depth)
}

// send posts a SEND of memory of the QP.
func (q *rigQP) send(flags uint8, off uint64, n uint32) {
	q.post(sge(header(opSend, flags, 3, 0, n), q.memory+off, q.key, n), int(n))
}

// pair returns connected QPs of two devices.
func pair(t *testing.T) (a, b *rigQP) {
	t.Helper()
	return pairOn(t, New())
}

// pairOn returns connected QPs of two devices of a fabric.
func pairOn(t *testing.T, f pci.Fabric) (a, b *rigQP) {
	t.Helper()
	a, b = newRig(t, f).qp(typeRC), newRig(t, f).qp(typeRC)
	connect(a, b)
	return a, b
}
