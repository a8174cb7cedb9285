// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
)

var (
	_ provider.QPCounter = (*QP)(nil)
	_ provider.CQCounter = (*CQ)(nil)
)

// tally counts a request of n bytes. Its opcode is below 16.
func (s *sendQueue) tally(op provider.SendOpcode, n uint64) {
	c := &s.counts[op&15]
	add(&c.Operations, 1)
	add(&c.Bytes, n)
}

// bytesOf returns the bytes of a request, as provider.QPStats counts them.
func bytesOf(wr *provider.SendWR, kind opKind) uint64 {
	n := uint64(len(wr.Header))
	switch {
	case kind == opUMR:
		return 0
	case wr.InlineData != nil:
		return n + uint64(len(wr.InlineData))
	}
	for i := range wr.SGList {
		e := &wr.SGList[i]
		if kind != opAtomic {
			n += uint64(e.Length)
		} else if e.Length != 0 {
			n += atomicSize
		}
	}
	return n
}

// subtract takes the request whose WQE begins at a block out of the counts. The request was built and
// not posted. The WQE has all that is needed, so that a post need not record it.
func (s *sendQueue) subtract(block uint32) {
	op, n := s.contents(block)
	c := &s.counts[op&15]
	add(&c.Operations, ^uint64(0))
	add(&c.Bytes, -n)
}

// contents returns the opcode and the bytes of the WQE that begins at a block.
func (s *sendQueue) contents(block uint32) (provider.SendOpcode, uint64) {
	w := wqe{s: s, p: unsafe.Add(s.buf, uintptr(block&s.mask)*wqebb)}
	ctrl := w.next()
	op := s.opcodeOf(load8(ctrl, 3), s.entry(block))
	kind := s.ops[op&15].kind
	if kind == opUMR {
		return op, 0
	}
	var n uint64
	segments := 0
	switch s.transport {
	case transportXRC:
		segments = 1
	case transportUD, transportDC:
		segments = len(addressVector{}) / 2
	case transportRaw:
		header := load64(w.next(), 8) >> 16 & 0xffff
		n = header
		if header > segment-ethHeaderAt {
			segments = int(header-(segment-ethHeaderAt)+segment-1) / segment
		}
	}
	switch kind {
	case opRemote, opRead:
		segments++
	case opAtomic:
		segments += 2
	}
	for range segments {
		w.next()
	}
	for size := wqeSize(ctrl); w.ds < size; {
		length := load32(w.next(), 0)
		if length&inlineSegment != 0 {
			return op, n + uint64(length&^inlineSegment)
		}
		n += uint64(length)
	}
	return op, n
}

// opcodeOf returns the operation of a request with an opcode of the device. Several operations are
// UMRs, of which e has the completion.
func (s *sendQueue) opcodeOf(code uint8, e *pendingWR) provider.SendOpcode {
	for i := range s.ops {
		o := &s.ops[i]
		if op := provider.SendOpcode(i); o.kind != opNone && o.code == code && (o.kind != opUMR || uint32(umrCompletes(op)) == e.umr) {
			return op
		}
	}
	return 0
}

// Stats implements provider.QPCounter.
func (q *QP) Stats() provider.QPStats {
	var st provider.QPStats
	s, r := &q.sq, &q.rq
	if !s.unlocked {
		s.lock.Lock()
	}
	for i := range s.counts {
		st.Sends[i] = provider.Count{Operations: load(&s.counts[i].Operations), Bytes: load(&s.counts[i].Bytes)}
	}
	st.Doorbells = load(&s.doorbells)
	s.unlock()
	if !r.unlocked {
		r.lock.Lock()
	}
	st.Receives = load(&r.posted)
	if !r.unlocked {
		r.lock.Unlock()
	}
	return st
}

// count counts a completion.
func (c *CQ) count(w *provider.WC) {
	add(&c.counts.Completions[min(w.Status, provider.WCGeneralErr)], 1)
	if w.Status == provider.WCSuccess && w.Opcode&provider.WCRecv != 0 {
		add(&c.counts.Received.Operations, 1)
		add(&c.counts.Received.Bytes, uint64(w.ByteLen))
	}
}

// Counts implements provider.CQCounter.
func (c *CQ) Counts() provider.CQCounts {
	var st provider.CQCounts
	if !c.unlocked {
		c.lock.Lock()
		defer c.lock.Unlock()
	}
	for i := range c.counts.Completions {
		st.Completions[i] = load(&c.counts.Completions[i])
	}
	st.Received = provider.Count{Operations: load(&c.counts.Received.Operations), Bytes: load(&c.counts.Received.Bytes)}
	return st
}
