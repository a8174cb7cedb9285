// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"encoding/binary"
	"fmt"

	"purerdma/verbs"
)

// dataChecks compare the data of each operation.
var dataChecks = []Check{
	{ID: "send-sizes", Title: "SEND of each size class, data compared", do: checkSendSizes},
	{ID: "write-sizes", Title: "WRITE of each size class, data compared", do: checkWriteSizes},
	{ID: "read-sizes", Title: "READ of each size class, data compared", do: checkReadSizes},
	{ID: "inline", Title: "inline data of each size", do: checkInline},
	{ID: "immediate", Title: "immediate data of SEND and WRITE", needs: needsImmediate, do: checkImmediate},
	{ID: "atomics", recorded: true, Title: "values and byte order of atomics", needs: needsAtomics, do: checkAtomics},
	{ID: "atomic-contention", Title: "additions to one value by several QPs", needs: needsAtomics, do: checkContention},
	{ID: "atomic-sides", Title: "additions to one value by the devices of both ends", needs: needsAtomics, do: checkAtomicSides},
	{ID: "atomic-processor", Title: "additions to one value by the device and a processor", needs: needsAtomics, do: checkProcessorAtomics},
	{ID: "unreliable", Title: "SEND and WRITE of unreliable connections", needs: needsUC, do: checkUC},
}

// large configures ends with memory for the largest message and margins.
var large = Config{Memory: largest + 2*margin}

func checkSendSizes(t *trial) {
	l := t.link(large)
	for i, size := range sizes {
		sendOne(l, i, size)
	}
}

// sendOne sends a message into a receive that it fills exactly, and compares the data and the
// margins.
func sendOne(l *link, seed, size int) {
	l.store(0, guards(size+2*margin))
	l.farRecv(uint64(seed), piece{margin, size})
	fillPattern(l.mr.Bytes()[:size], seed)
	l.send(l.datagram(verbs.SendWR{Opcode: verbs.OpSend, SGList: l.elements([]piece{{0, size}})}))
	wc := l.farReceived(1)[0]
	if wc.ID != uint64(seed) || int(wc.ByteLen) != size || wc.Opcode != verbs.WCRecv {
		l.t.fail("SEND of %d bytes: completion %+v, want ID %d, %d bytes", size, wc, seed, size)
	}
	l.arrived(fmt.Sprintf("SEND of %d bytes", size), seed, size)
}

// arrived compares the far memory with a message between guards.
func (l *link) arrived(what string, seed, size int) {
	want := guards(size + 2*margin)
	fillPattern(want[margin:][:size], seed)
	l.same(what, l.load(0, len(want)), want)
}

func checkWriteSizes(t *trial) {
	l := t.link(large)
	for i, size := range sizes {
		l.store(0, guards(size+2*margin))
		fillPattern(l.mr.Bytes()[:size], i)
		l.send(l.write(piece{0, size}, margin))
		l.settle()
		l.arrived(fmt.Sprintf("WRITE of %d bytes", size), i, size)
	}
}

// settle returns when all WRITEs are in the far memory. The completion of a WRITE does not guarantee that its data
// is visible there, but the completion of a READ behind it does. iWARP completes a WRITE even before it has arrived.
func (l *link) settle() {
	at := l.mr.Len() - 1
	l.send(l.read(piece{at, 1}, at))
}

func checkReadSizes(t *trial) {
	l := t.link(large)
	near := l.mr.Bytes()
	for i, size := range sizes {
		l.store(0, pattern(i, size))
		want := guards(size + 2*margin)
		copy(near, want)
		l.send(l.read(piece{margin, size}, 0))
		fillPattern(want[margin:][:size], i)
		l.same(fmt.Sprintf("READ of %d bytes", size), near[:len(want)], want)
	}
}

func checkInline(t *trial) {
	l := t.link(Config{Cap: verbs.QPCap{Inline: inlineSize(t)}})
	most := l.qp.Cap().Inline
	t.note("inline data of up to %d bytes", most)
	for size := range min(most, 256) + 1 {
		data := pattern(size, size)
		for _, op := range []verbs.SendOpcode{verbs.OpSend, verbs.OpWrite} {
			l.store(0, guards(size+2*margin))
			wr := verbs.SendWR{Opcode: op, InlineData: data}
			if op == verbs.OpSend {
				l.farRecv(uint64(size), piece{margin, size})
			} else {
				wr.RemoteAddr, wr.RKey = l.remote(margin), l.memory.RKey
			}
			l.post(signaled(wr))
			clear(data) // the post has copied it
			l.succeeded(opName(op), l.sends(1))
			if op == verbs.OpSend {
				l.farReceived(1)
			} else {
				l.settle()
			}
			l.arrived(fmt.Sprintf("inline %s of %d bytes", opName(op), size), size, size)
			fillPattern(data, size)
		}
	}
}

func signaled(wr verbs.SendWR) verbs.SendWR {
	wr.Flags |= verbs.SendSignaled
	return wr
}

// inlineSize returns a size of inline data that the device takes, at most 240 bytes. With this size a BlueFlame register of 256 bytes
// does not take the longest WRITE of a ConnectX.
func inlineSize(t *trial) int {
	for size := 240; size > 0; size /= 2 {
		e := &end{target: t.target, cfg: Config{Cap: verbs.QPCap{Inline: size}}}
		err := e.build(t.dev)
		if cerr := e.close(); cerr != nil {
			t.fail("close a QP: %v", cerr)
		}
		if err == nil {
			return size
		}
	}
	return 0
}

func needsImmediate(t *trial) string {
	if !t.features.Immediate {
		return "the device has no immediate data"
	}
	return ""
}

func checkImmediate(t *trial) {
	l := t.link(Config{})
	for i, imm := range []uint32{0, 1, 0x01020304, 0xffffffff, 0x80000000} {
		for _, op := range []verbs.SendOpcode{verbs.OpSendImm, verbs.OpWriteImm} {
			size := 5 * i
			l.store(0, guards(size+2*margin))
			wr := verbs.SendWR{Opcode: op, ImmData: imm}
			if size > 0 {
				fillPattern(l.mr.Bytes()[:size], i)
				wr.SGList = l.elements([]piece{{0, size}})
			}
			wantOp := verbs.WCRecv
			if op == verbs.OpWriteImm {
				wr.RemoteAddr, wr.RKey = l.remote(margin), l.memory.RKey
				wantOp = verbs.WCRecvWriteImm
			}
			l.farRecv(uint64(i), piece{margin, size})
			l.send(wr)
			wc := l.farReceived(1)[0]
			if wc.ImmData != imm || wc.Flags&verbs.WCWithImm == 0 || wc.Opcode != wantOp || int(wc.ByteLen) != size || wc.ID != uint64(i) {
				t.fail("%s: completion %+v, want ID %d, immediate %#x, %d bytes", opName(op), wc, i, imm, size)
			}
			l.arrived(opName(op), i, size)
		}
	}
}

func needsAtomics(t *trial) string {
	if !t.features.Atomics || t.attr.AtomicCap == 0 {
		return "the device has no atomics"
	}
	return ""
}

func checkAtomics(t *trial) {
	l := t.link(Config{})
	at := l.remote(margin)
	near := l.mr.Bytes()
	// atomic executes an atomic on a far value and returns the previous one.
	atomic := func(wr verbs.SendWR) uint64 {
		copy(near, guards(24))
		wr.SGList, wr.RemoteAddr, wr.RKey = l.elements([]piece{{8, 8}}), at, l.memory.RKey
		l.send(wr)
		l.same("memory before the result", near[:8], guards(8))
		l.same("memory behind the result", near[16:24], guards(8))
		return binary.NativeEndian.Uint64(near[8:])
	}
	value := func() uint64 { return binary.NativeEndian.Uint64(l.load(margin, 8)) }
	for _, start := range []uint64{0, 1, 0x0102030405060708, ^uint64(0), 1 << 63} {
		l.store(margin, binary.NativeEndian.AppendUint64(nil, start))
		if got := atomic(verbs.SendWR{Opcode: verbs.OpFetchAdd, CompareAdd: 0x1122334455667788}); got != start || value() != start+0x1122334455667788 {
			t.fail("fetch and add on %#x = %#x, value %#x, want value %#x", start, got, value(), start+0x1122334455667788)
		}
		now := value()
		if got := atomic(verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: now + 1, Swap: 7}); got != now || value() != now {
			t.fail("compare and swap of a wrong value = %#x, value %#x, want both %#x", got, value(), now)
		}
		if got := atomic(verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: now, Swap: 0x0706050403020100}); got != now || value() != 0x0706050403020100 {
			t.fail("compare and swap = %#x, value %#x, want %#x and %#x", got, value(), now, uint64(0x0706050403020100))
		}
	}
	l.store(margin, make([]byte, 8))
	const rounds = 200
	for i := range uint64(rounds) {
		if got := atomic(verbs.SendWR{Opcode: verbs.OpFetchAdd, CompareAdd: 1}); got != i {
			t.fail("fetch and add number %d = %d, want %d", i, got, i)
		}
	}
}

func needsUC(t *trial) string {
	if !t.features.UC {
		return "the device has no unreliable connections"
	}
	return ""
}

func checkUC(t *trial) {
	cfg := large
	cfg.Type = verbs.UC
	l := t.link(cfg)
	for i, size := range sizes {
		sendOne(l, i, size)
	}
	if !t.features.Immediate {
		return
	}
	// An unreliable WRITE has arrived when its immediate data has.
	for i, size := range sizes {
		l.store(0, guards(size+2*margin))
		l.farRecv(uint64(i))
		fillPattern(l.mr.Bytes()[:size], i)
		wr := l.write(piece{0, size}, margin)
		wr.Opcode = verbs.OpWriteImm
		l.send(wr)
		l.farReceived(1)
		l.arrived(fmt.Sprintf("unreliable WRITE of %d bytes", size), i, size)
	}
}
