// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"encoding/binary"
	"errors"
	"fmt"

	"purerdma/verbs"
)

func isFull(err error) bool { return errors.Is(err, verbs.ErrFull) }

// pump posts more requests while there is room and work.
func (e *end) pump() {
	// As iWARP requires, the passive side waits for the first message.
	for e.ready && (e.side == 0 || e.heard) && e.over == nil {
		e.post()
		if e.over != nil || len(e.queue) > 0 || e.s.failed.Err() != nil || len(e.out) >= atOnce {
			return
		}
		if e.breakOff() {
			return
		}
		if len(e.alone) > 0 {
			if len(e.out) > 0 {
				return
			}
			e.alone[0]()
			e.alone = e.alone[1:]
			continue
		}
		for range 1 + e.rng.IntN(6) {
			if !e.one() {
				break
			}
		}
		if len(e.queue) == 0 {
			return
		}
		// The last request of a list is signaled and implies the others.
		last := &e.queue[len(e.queue)-1]
		if last.Flags&verbs.SendSignaled == 0 {
			last.Flags |= verbs.SendSignaled
			r := e.out[last.ID]
			r.signaled = true
			e.out[last.ID] = r
		}
		if e.rng.IntN(3) == 0 {
			e.postBatch()
		}
	}
}

// one issues one more request. It returns false if there is nothing to do.
func (e *end) one() bool {
	if e.got >= e.told+window/2 && !e.finSent || e.blocksPeer() || e.owesCredit() {
		e.credit()
		return true
	}
	for i, task := range e.tasks {
		if task() {
			e.tasks = append(e.tasks[:i], e.tasks[i+1:]...)
			return true
		}
	}
	if e.s.ctx.Err() != nil || int(e.sent) >= e.quota {
		return e.conclude()
	}
	type op func() bool
	ops := []op{e.message, e.message, e.message, e.message, // the first four operations
		e.write, e.write, e.inlineWrite, e.read, e.read, e.offer}
	c := &e.node.caps
	if c.atomics {
		ops = append(ops, e.fetchAdd, e.compareSwap)
	}
	if c.atomicWrite {
		ops = append(ops, e.atomicWrite)
	}
	if c.flush {
		ops = append(ops, e.flush)
	}
	if c.readInv {
		ops = append(ops, e.readInv)
	}
	if e.others >= perMessage*int(e.sent+1) {
		ops = ops[:4]
	}
	for range 4 {
		if i := e.rng.IntN(len(ops)); ops[i]() {
			if i >= 4 {
				e.others++
			}
			return true
		}
	}
	return false
}

// blocksPeer reports whether the peer needs an acknowledgment to send its final message,
// although this side has already sent its own.
func (e *end) blocksPeer() bool { return e.finSent && e.fin == nil && e.got >= e.told+window }

// perMessage is the maximum number of other requests for each message. Messages wait for the
// peer, the others do not.
const perMessage = 5

// conclude sends the final messages.
func (e *end) conclude() bool {
	switch {
	case !e.weQuiet:
		if len(e.offers) > 0 || !e.say(header{kind: kindQuiet}, 0, nil) {
			return false
		}
		e.weQuiet = true
		return true
	case e.quiet && !e.finSent && len(e.tasks) == 0 && len(e.out) == 0:
		if !e.say(header{kind: kindFin, a: e.sent + 1, b: uint64(e.mem.checksum(e.mem.copy))}, 0, func() { e.finDone = true }) {
			return false
		}
		e.finSent = true
		return true
	}
	return false
}

// flags returns random flags.
func (e *end) flags() (f verbs.SendFlags) {
	if e.rng.IntN(3) == 0 {
		f |= verbs.SendSignaled
	}
	if e.rng.IntN(8) == 0 {
		f |= verbs.SendFence
	}
	if e.rng.IntN(4) == 0 {
		f |= verbs.SendSolicited
	}
	return f
}

// slot allocates a slot, or returns -1.
func (e *end) slot() int {
	if len(e.slotsOK) == 0 {
		return -1
	}
	s := e.slotsOK[len(e.slotsOK)-1]
	e.slotsOK = e.slotsOK[:len(e.slotsOK)-1]
	return s
}

func (e *end) giveBack(slot int) { e.slotsOK = append(e.slotsOK, slot) }

func (e *end) slotBytes(slot, n int) []byte { return e.arena.Bytes()[slot*slotLen:][:n] }

// pieces splits the first n bytes of a slot into at most that many elements.
func (e *end) pieces(slot, n, most int) []verbs.SGE {
	off, list := slot*slotLen, []verbs.SGE(nil)
	for len(list) < most-1 && n > 1 && e.rng.IntN(2) == 0 {
		k := 1 + e.rng.IntN(n-1)
		list = append(list, e.arena.Slice(off, k))
		off, n = off+k, n-k
	}
	return append(list, e.arena.Slice(off, n))
}

// credit acknowledges the peer's messages. It always has a receive, because at most two are in
// flight.
func (e *end) credit() {
	b := make([]byte, headerLen)
	h := header{kind: kindCredit, lane: e.lane, gen: e.gen, seen: e.got}
	h.put(b)
	e.told = e.got
	e.issue(verbs.SendWR{Opcode: verbs.OpSend, Flags: e.flags(), InlineData: b}, func() {})
}

// message sends arbitrary data with one of the operations that use a receive.
func (e *end) message() bool { return e.say(header{kind: kindData}, slotLen-headerLen, func() {}) }

// say sends a numbered message with up to most bytes after the header. It returns false if it
// must wait.
func (e *end) say(h header, most int, done func()) bool {
	if e.sent-e.acked >= window {
		return false
	}
	slot := e.slot()
	if slot < 0 {
		return false
	}
	e.sent++
	n := size(e.rng, most)
	b := e.slotBytes(slot, headerLen+n)
	fill(e.rng, b[headerLen:])
	h.lane, h.gen, h.seq, h.seen, h.length = e.lane, e.gen, e.sent, e.got, n
	e.told = e.got
	sum := h.put(b)
	wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: e.flags()}
	place := e.mem.freePlace(e.acked)
	switch how := e.rng.IntN(4); {
	case h.kind == kindAnswer && h.c != 0:
		wr.Opcode, wr.InvalidateRKey = verbs.OpSendInv, uint32(h.c)
	case len(b) <= e.qp.Cap().Inline && how == 0:
		wr.InlineData = b
	case e.node.caps.imm && how == 1:
		wr.Opcode, wr.ImmData = verbs.OpSendImm, sum
	case e.node.caps.imm && how == 2 && place >= 0:
		wr.Opcode, wr.ImmData = verbs.OpWriteImm, uint32(place)
		wr.RemoteAddr, wr.RKey = e.mem.remote.Addr+placeOff+uint64(place)*slotLen, e.mem.remote.RKey
		e.mem.used[place] = e.sent
	}
	if wr.InlineData == nil {
		wr.SGList = e.pieces(slot, len(b), 3)
	}
	e.issue(wr, func() {
		e.giveBack(slot)
		if done != nil {
			done()
		}
	})
	return true
}

// write writes to a cell of the peer.
func (e *end) write() bool {
	cell := e.rng.IntN(cells)
	slot := e.slot()
	if slot < 0 || e.mem.busy[cell] > 0 {
		if slot >= 0 {
			e.giveBack(slot)
		}
		return false
	}
	n := e.enough(size(e.rng, cellLen))
	fill(e.rng, e.slotBytes(slot, n))
	off := cell*cellLen + e.rng.IntN(cellLen-n+1)
	copy(e.mem.copy[off:], e.slotBytes(slot, n))
	e.s.stats.writes.Add(1)
	e.s.stats.bytes.Add(int64(n))
	e.issue(verbs.SendWR{Opcode: verbs.OpWrite, Flags: e.flags(), RemoteAddr: e.mem.remote.Addr + uint64(off), RKey: e.mem.remote.RKey, SGList: e.pieces(slot, n, 3)},
		func() { e.giveBack(slot) })
	return true
}

func (e *end) inlineWrite() bool {
	cell := e.rng.IntN(cells)
	if e.mem.busy[cell] > 0 {
		return false
	}
	b := make([]byte, 1+e.rng.IntN(e.qp.Cap().Inline))
	fill(e.rng, b)
	off := cell*cellLen + e.rng.IntN(cellLen-len(b))
	copy(e.mem.copy[off:], b)
	e.s.stats.writes.Add(1)
	e.issue(verbs.SendWR{Opcode: verbs.OpWrite, Flags: e.flags(), RemoteAddr: e.mem.remote.Addr + uint64(off), RKey: e.mem.remote.RKey, InlineData: b}, func() {})
	return true
}

// read reads a cell of the peer.
func (e *end) read() bool {
	if !e.mayRead() {
		return false
	}
	slot := e.slot()
	if slot < 0 {
		return false
	}
	cell := e.rng.IntN(cells)
	n := e.enough(size(e.rng, cellLen))
	off := cell*cellLen + e.rng.IntN(cellLen-n+1)
	wr := verbs.SendWR{Opcode: verbs.OpRead, Flags: e.flags(), RemoteAddr: e.mem.remote.Addr + uint64(off), RKey: e.mem.remote.RKey, SGList: e.pieces(slot, n, e.node.caps.readSGE)}
	e.mem.busy[cell]++
	e.s.stats.reads.Add(1)
	e.s.stats.bytes.Add(int64(n))
	e.issue(wr, func() {
		e.same(fmt.Sprintf("read from %#x to slot %d", off, slot), e.slotBytes(slot, n), e.mem.copy[off:off+n])
		e.mem.busy[cell]--
		e.giveBack(slot)
	})
	return true
}

// readInv reads into temporary memory, whose key is invalidated when the data arrive.
func (e *end) readInv() bool {
	if len(e.offers) >= 2 || !e.mayRead() {
		return false
	}
	cell, n := e.rng.IntN(cells), e.enough(1+size(e.rng, cellLen-1))
	off := cell*cellLen + e.rng.IntN(cellLen-n+1)
	mr, err := e.place.pd.Alloc(n, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		e.fault("registering %d bytes: %w", n, err)
		return false
	}
	e.offers[mr.Addr()] = &offer{mr: mr}
	e.mem.busy[cell]++
	e.s.stats.reads.Add(1)
	wr := verbs.SendWR{Opcode: verbs.OpReadInv, Flags: verbs.SendSignaled, RemoteAddr: e.mem.remote.Addr + uint64(off), RKey: e.mem.remote.RKey, SGList: []verbs.SGE{mr.SGE()}}
	e.issue(wr, func() {
		e.same(fmt.Sprintf("read from %#x", off), mr.Bytes(), e.mem.copy[off:off+n])
		e.mem.busy[cell]--
		delete(e.offers, mr.Addr())
		if err := mr.Close(); err != nil {
			e.fault("closing what was read into: %w", err)
		}
	})
	return true
}

// atomic issues an atomic on a word and compares its result.
func (e *end) atomic(i int, wr verbs.SendWR) bool {
	if !e.mayRead() {
		return false
	}
	slot := e.slot()
	if slot < 0 {
		return false
	}
	was, result := e.mem.word(i), e.slotBytes(slot, 8)
	copy(result, unwritten)
	wr.Flags, wr.SGList = e.flags(), []verbs.SGE{e.arena.Slice(slot*slotLen, 8)}
	wr.RemoteAddr, wr.RKey = e.mem.remote.Addr+wordsOff+8*uint64(i), e.mem.remote.RKey
	e.s.stats.atomics.Add(1)
	e.issue(wr, func() {
		switch got := binary.NativeEndian.Uint64(result); {
		case got == was:
		case e.node.caps.rxe && string(result) == unwritten && repeated():
			e.s.stats.unwritten.Add(1)
		default:
			e.fault("%v of word %d returned %#x, there was %#x", wr.Opcode, i, got, was)
		}
		e.giveBack(slot)
	})
	return true
}

func (e *end) fetchAdd() bool {
	i, add := e.rng.IntN(words), e.rng.Uint64()
	ok := e.atomic(i, verbs.SendWR{Opcode: verbs.OpFetchAdd, CompareAdd: add})
	if ok {
		e.mem.setWord(i, e.mem.word(i)+add)
	}
	return ok
}

func (e *end) compareSwap() bool {
	i := e.rng.IntN(words)
	wr := verbs.SendWR{Opcode: verbs.OpCompareSwap, CompareAdd: e.mem.word(i), Swap: e.rng.Uint64()}
	differs := e.rng.IntN(2) == 0
	if differs {
		wr.CompareAdd++
	}
	ok := e.atomic(i, wr)
	if ok && !differs {
		e.mem.setWord(i, wr.Swap)
	}
	return ok
}

func (e *end) atomicWrite() bool {
	if !e.mayRead() {
		return false
	}
	i, v := e.rng.IntN(words), e.rng.Uint64()
	e.mem.setWord(i, v)
	e.s.stats.atomics.Add(1)
	e.issue(verbs.SendWR{Opcode: verbs.OpAtomicWrite, Flags: e.flags(), RemoteAddr: e.mem.remote.Addr + wordsOff + 8*uint64(i), RKey: e.mem.remote.RKey,
		InlineData: binary.NativeEndian.AppendUint64(nil, v)}, func() {})
	return true
}

func (e *end) flush() bool {
	if e.got == 0 || !e.mayRead() {
		return false // the peer's QP may not have this right yet
	}
	off := e.rng.IntN(wordsOff)
	e.issue(verbs.SendWR{Opcode: verbs.OpFlush, Flags: e.flags(), RemoteAddr: e.mem.remote.Addr + uint64(off), RKey: e.mem.remote.RKey,
		Flush: verbs.Flush{Length: uint32(e.rng.IntN(wordsOff - off)), Type: verbs.ToGlobal, Level: verbs.FlushRange}}, func() {})
	return true
}

// breakOff ends the connection at the point in its plan.
func (e *end) breakOff() bool {
	if e.plan.ending == orderly || e.plan.by != e.side || int(e.sent) < e.plan.after || e.weQuiet || e.quiet {
		return false
	}
	e.broke(errPlanned)
	return true
}

var errPlanned = errors.New("broken off as planned")

// same reports a fault if the read data differ from the written data.
func (e *end) same(what string, got, want []byte) {
	for i := range got {
		if got[i] != want[i] {
			e.fault("%s: of %d bytes, those from the %dth on are % x and should be % x", what, len(got), i, got[i:min(i+16, len(got))], want[i:min(i+16, len(want))])
			return
		}
	}
}
