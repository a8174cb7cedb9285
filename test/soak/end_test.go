// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"

	"purerdma/verbs"
)

// Resources of a side.
const (
	sendDepth = 15 // Size of the send queue, so small that it becomes full. siw and rxe round it to 16 slots.
	atOnce    = 24 // Maximum number of pending requests.
	window    = 8  // Maximum number of unacknowledged messages.
	recvSlots = window + 4
	slotLen   = 8192
	slots     = 10 // slots for sent data, and for read data
	readDepth = 4  // maximum number of concurrent READs and atomics
)

// request is a send request that has not completed.
type request struct {
	opcode   verbs.SendOpcode
	signaled bool
	done     func() // called after its success
}

// end is one side of a connection. After start, mu guards its fields, because the waiters for
// completions do its work.
type end struct {
	s       *soak
	node    *node
	name    string
	lane    uint32
	gen     uint32
	plan    plan
	side    int // 0 for the active side
	serial  uint32
	place   *place
	qp      *verbs.QP
	arena   *verbs.MR // slots of sends, then of receives
	mem     *memory   // own region, and copy of the peer's region
	ended   chan struct{}
	dropped func() bool // whether a failure is expected because the peer was killed

	mu       sync.Mutex
	rng      *rand.Rand
	ready    bool // connected, with all rights
	heard    bool // a message has arrived
	progress int  // counts completions
	over     error
	ownFault bool // whether over is not the consequence of another fault
	closed   bool
	endOnce  sync.Once

	n       uint32             // number of issued requests.
	lastOK  uint32             // last request that has completed successfully.
	out     map[uint64]request // pending requests.
	queue   []verbs.SendWR     // requests to post.
	recvs   map[uint64]bool    // posted receives of this QP.
	slotsOK []int              // free slots of sends
	quota   int
	others  int // requests other than messages.
	reads   int // pending requests that use one of the peer's answer resources.
	fences  int // on rxe, pending requests with a fence
	nudged  int
	flushed map[uint64]bool // on iWARP, the READs that have failed

	sent, acked    uint64          // sent messages, and the acknowledged part of them.
	got, told      uint64          // received messages without gaps, and the last acknowledged one.
	early          map[uint64]bool // messages received after a gap, because waiters of a shared CQ may be out of order.
	fin            *header         // final message of the peer.
	quiet, weQuiet bool            // whether the peer sends no more offers, and whether this side does
	finSent        bool
	finDone        bool
	offers         map[uint64]*offer
	tasks          []func() bool // messages that the peer waits for, each returning false without room.
	alone          []func()      // operations to issue when no request is pending
	batch          verbs.Batch
}

// newEnd creates a side with its unconnected QP.
func newEnd(n *node, lane, gen uint32, side int) (*end, error) {
	e := &end{
		s: n.s, node: n, lane: lane, gen: gen, side: side, serial: n.s.serial.Add(1),
		ended: make(chan struct{}), dropped: func() bool { return false },
		plan: newPlan(n.s.rand(lane, gen)), rng: n.s.rand(lane, gen, uint32(side)+1),
		out: map[uint64]request{}, recvs: map[uint64]bool{}, early: map[uint64]bool{}, offers: map[uint64]*offer{},
	}
	e.quota = e.plan.quota[side]
	pl, err := n.place(e.plan.modes[side])
	if err != nil {
		return nil, err
	}
	e.place = pl
	e.name = fmt.Sprintf("lane %d.%d, %s side (%v; ends %v)", lane, gen, [...]string{"active", "passive"}[side], pl.mode, e.plan.ending)
	cfg := verbs.QPConfig{SendCQ: pl.send.cq, RecvCQ: pl.recv.cq, Cap: verbs.QPCap{SendWR: sendDepth, RecvWR: recvSlots, SendSGE: 3, RecvSGE: 2, Inline: 80}}
	if pl.pool != nil {
		cfg.SRQ = pl.pool.srq
	}
	if e.qp, err = pl.pd.CreateQP(cfg); err == nil {
		pl.send.add(e)
		pl.recv.add(e)
		if e.arena, err = pl.pd.Alloc((slots+recvSlots)*slotLen, verbs.LocalWrite); err == nil {
			e.mem, err = newMemory(pl.pd, n.caps.access)
		}
	}
	if err != nil {
		e.free()
		return nil, err
	}
	for i := range slots {
		e.slotsOK = append(e.slotsOK, i)
	}
	return e, nil
}

// receive posts all receives, once the QP accepts them.
func (e *end) receive() {
	if e.place.pool != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range recvSlots {
		e.postRecv(uint64(i))
	}
}

const recvBit = 1 << 31 // marks the IDs of receives

// postRecv posts a receive of this QP into one slot, in one or two pieces.
func (e *end) postRecv(slot uint64) {
	off, cut := (slots+int(slot))*slotLen, e.rng.IntN(slotLen)
	wr := verbs.RecvWR{ID: uint64(e.serial)<<32 | recvBit | slot, SGList: []verbs.SGE{e.arena.Slice(off, cut), e.arena.Slice(off+cut, slotLen-cut)}}
	if cut < slotLen/2 {
		wr.SGList = []verbs.SGE{e.arena.Slice(off, slotLen)}
	}
	if _, err := e.qp.PostRecv([]verbs.RecvWR{wr}); err != nil {
		e.broke(fmt.Errorf("post a receive: %w", err))
		return
	}
	e.recvs[slot] = true
}

// start starts the traffic.
func (e *end) start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ready = true
	e.pump()
}

// takes reports whether a completion belongs to this end, and not to an earlier QP with an
// equal number whose completion was polled before its close. The completion of an SRQ receive
// does not identify its QP, but the message in it does.
func (e *end) takes(id uint64) bool { return id&srqID != 0 || uint32(id>>32) == e.serial }

// complete processes a completion.
func (e *end) complete(wc verbs.WC) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.progress++
	switch {
	case e.closed:
		if wc.ID&srqID != 0 {
			e.place.pool.post(wc.ID &^ srqID)
		}
		return
	case wc.ID&srqID != 0:
		slot := wc.ID &^ srqID
		if wc.Err() == nil {
			e.arrived(wc, e.place.pool.mr.Bytes()[slot*slotLen:][:slotLen])
		} else {
			e.broke(wc.Err())
		}
		e.place.pool.post(slot)
	case wc.ID&recvBit != 0:
		slot := wc.ID & (recvBit - 1)
		if !e.recvs[slot] {
			e.fault("receive %d has completed twice: %+v", slot, wc)
			return
		}
		delete(e.recvs, slot)
		if wc.Err() != nil {
			e.broke(wc.Err())
			return
		}
		e.arrived(wc, e.arena.Bytes()[(slots+slot)*slotLen:][:slotLen])
		if e.over == nil {
			e.postRecv(slot)
		}
	default:
		e.sentOne(wc)
	}
	e.finish()
	e.pump()
}

// sentOne processes the completion of a send request.
func (e *end) sentOne(wc verbs.WC) {
	r, ok := e.out[wc.ID]
	if !ok {
		if !e.flushedTwice(wc) {
			e.fault("a completion of what was not posted, or had completed: %+v", wc)
		}
		return
	}
	delete(e.out, wc.ID)
	if err := wc.Err(); err != nil {
		e.noteFlushed(wc.ID, r.opcode)
		e.broke(fmt.Errorf("%v: %w", r.opcode, err))
		return
	}
	e.lastOK = max(e.lastOK, uint32(wc.ID))
	// Earlier requests without a completion have succeeded as implied.
	for id := wc.ID - 1; ; id-- {
		before, ok := e.out[id]
		if !ok || before.signaled {
			break
		}
		delete(e.out, id)
		before.done()
	}
	r.done()
}

// issue adds a request to the queue.
func (e *end) issue(wr verbs.SendWR, done func()) {
	switch c := &e.node.caps; {
	case c.iwarp:
		e.spare(&wr)
	case c.rxe:
		done = e.spareFence(&wr, done)
	}
	if takesPlace(wr.Opcode) {
		e.reads++
		then := done
		done = func() {
			e.reads--
			then()
		}
	}
	e.n++
	wr.ID = uint64(e.serial)<<32 | uint64(e.n)
	e.out[wr.ID] = request{opcode: wr.Opcode, signaled: wr.Flags&verbs.SendSignaled != 0, done: done}
	e.queue = append(e.queue, wr)
}

// takesPlace reports whether a request uses one of the peer's answer resources. The peer can
// repeat readDepth answers.
func takesPlace(op verbs.SendOpcode) bool {
	switch op {
	case verbs.OpRead, verbs.OpReadInv, verbs.OpFetchAdd, verbs.OpCompareSwap, verbs.OpAtomicWrite, verbs.OpFlush:
		return true
	}
	return false
}

// mayRead reports whether one more such request may be issued. On iWARP a waiting request
// prevents siw from answering the READs of the peer, which may wait for the same reason. On rxe
// READs and atomics wait, but FLUSH and ATOMIC_WRITE do not: see
// docs/reference/driver-faults.md. spareFence handles requests after a fence.
func (e *end) mayRead() bool {
	c := &e.node.caps
	return e.fences == 0 && (!c.iwarp && !c.flush && !c.atomicWrite || e.reads < readDepth)
}

// post posts the queue as far as there is room, as one list, as a batch, or one by one.
func (e *end) post() {
	for len(e.queue) > 0 && e.over == nil {
		some := e.queue[:1+e.rng.IntN(len(e.queue))]
		n, err := e.qp.PostSend(some)
		e.queue = e.queue[n:]
		if isFull(err) {
			return
		}
		if err != nil {
			e.broke(fmt.Errorf("post: %w", err))
		}
	}
}

// finished reports whether all messages have been sent and received.
func (e *end) finished() bool { return e.finSent && e.fin != nil && e.got == e.fin.a }

// broke records that the connection is unusable.
func (e *end) broke(err error) {
	if e.over == nil {
		e.over, e.ownFault = err, e.s.failed.Err() == nil
		e.stop()
	}
}

func (e *end) stop() { e.endOnce.Do(func() { close(e.ended) }) }

// fault records a fault of this end.
func (e *end) fault(format string, args ...any) {
	e.s.fault("%s: %w", e.name, fmt.Errorf(format, args...))
}

// arrived processes a message or the notification of one.
func (e *end) arrived(wc verbs.WC, b []byte) {
	if e.over != nil && !e.finSent {
		return // own memory may be closed
	}
	b = b[:wc.ByteLen]
	if wc.Opcode == verbs.WCRecvWriteImm {
		if b = e.mem.placed(wc); b == nil {
			e.fault("a WRITE_WITH_IMM of %d bytes to place %#x, which is not", wc.ByteLen, wc.ImmData)
			return
		}
	}
	if now(&e.s.spoil.message) {
		b[len(b)-1] ^= 4 // in the payload or the checksum
	}
	h, sum, err := parse(b)
	switch {
	case err != nil:
		e.fault("%w", err)
		return
	case (h.lane != e.lane || h.gen != e.gen) && e.node.caps.iwarp && wc.ID&srqID != 0:
		return // see takes. Its owner reports it as missing
	case h.lane != e.lane || h.gen != e.gen:
		e.fault("message %d of lane %d.%d", h.seq, h.lane, h.gen)
		return
	case wc.Opcode == verbs.WCRecv && wc.Flags&verbs.WCWithImm != 0 && wc.ImmData != sum:
		e.fault("message %d came with %#x, not with its checksum %#x", h.seq, wc.ImmData, sum)
	}
	e.s.stats.messages.Add(1)
	e.s.stats.bytes.Add(int64(len(b)))
	e.heard = true
	e.acked = max(e.acked, h.seen)
	if h.kind == kindCredit {
		return
	}
	if now(&e.s.spoil.skip) {
		return
	}
	if h.seq <= e.got || e.early[h.seq] || h.seq > e.got+window {
		e.fault("message %d came twice, or out of turn: all up to %d were seen", h.seq, e.got)
		return
	}
	if !e.place.mode.shared() && h.seq != e.got+1 {
		e.fault("message %d came after %d", h.seq, e.got)
	}
	e.early[h.seq] = true
	for e.early[e.got+1] {
		delete(e.early, e.got+1)
		e.got++
	}
	e.handle(&h, wc)
}

// handle processes the contents of a message.
func (e *end) handle(h *header, wc verbs.WC) {
	switch h.kind {
	case kindData:
	case kindOffer:
		e.accept(*h)
	case kindAnswer:
		e.answered(h, wc)
	case kindQuiet:
		e.quiet = true
		e.quota = int(e.sent) // end as well
	case kindFin:
		fin := *h
		e.fin = &fin
	default:
		e.fault("message %d is of kind %d", h.seq, h.kind)
	}
}

// finish checks whether both sides have sent and received all messages. Other waiters of the CQ
// may still have to deliver some.
func (e *end) finish() {
	if e.finDone && e.finished() && e.mayClose() && e.over == nil {
		e.stop()
	}
}

// checksumOf returns the checksum of memory.
func checksumOf(b []byte) uint32 { return crc32.Checksum(b, table) }
