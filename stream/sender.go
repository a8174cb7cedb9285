// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"syscall"
	"time"

	"purerdma/internal/fifo"
	"purerdma/pool"
	"purerdma/verbs"
)

const (
	// maxSends bounds the frames that are in flight when one with data is posted.
	maxSends = 32
	// controlSends is the number of further frames, which have no data.
	controlSends = 2
	// A writer polls after pollBytes, which take longer than a poll, and while pollSends frames with data
	// are in flight.
	pollBytes = 4 << 10
	pollSends = maxSends / 4
	// spareSends is the number of entries for the probes of the connection manager.
	spareSends = 4
	// headerBytes is the memory for the headers of all frames in flight.
	headerBytes = (maxSends + controlSends) * frameLen
	// maxInline is the length of the longest frame that is copied to the send queue, so that the device reads no other
	// memory. It is the bound of siw, the lowest of the drivers.
	maxInline = frameLen + 64
)

// States of the end of the outgoing stream.
const (
	finNone      = iota
	finWanted    // after the data
	finSent      // in a frame
	finConfirmed // by the peer
)

// sender is the part of a link that sends. link.mu guards it.
type sender struct {
	payload int  // most data bytes of a frame
	inline  int  // length of the longest frame that is posted inline
	shared  bool // the peer's receives are shared
	// granted counts the credits that the peer has granted, and sent counts the used ones.
	granted, sent uint32

	// Writers fill cur. A full cur goes to queue. Frames take their data from queue, and then from cur.
	// The bytes from curFrom to curEnd of cur are not yet in a frame. curBusy is set while a writer may
	// write behind curEnd.
	cur             *block
	curFrom, curEnd int
	curBusy         bool
	queue           fifo.Queue[segment]
	spare           *block // memory that awaitMemory has got
	unused          *block // list of blocks without memory
	buffered        int    // bytes that have not reached the peer's device
	share           memoryShare

	headers  *pool.Buf
	scratch  [maxInline]byte // a frame that is posted inline
	outgoing *outgoing       // list of the unused elements
	made     int             // number of elements that exist
	inFlight int
	data     int // frames with data in flight

	fin      int
	greeting bool // send a frame, because the peer waits for the first one
	confirm  bool // send flagFINAck

	awaiting bool // awaitMemory runs
	cancel   context.CancelFunc

	idle    *time.Timer // nil before the first use
	idleSet bool        // the timer runs
	// idleSent and idleReceived are sent and receiver.received at the time when the timer was set.
	idleSent, idleReceived uint32
}

// segment is data that is to be sent. It has a reference to the block.
type segment struct {
	block   *block
	from, n int
}

// outgoing is a frame in flight. It is reused.
type outgoing struct {
	l      *link
	header int // offset of the header in sender.headers
	block  *block
	n      int
	done   func(error)
	next   *outgoing
}

func (s *sender) start(l *link, peer hello, headers *pool.Buf) {
	s.payload = min(peer.slot, max(l.opts.Slot, defaultSlot)) - frameLen
	s.inline = min(l.conn.QP().Cap().Inline, maxInline)
	s.shared = peer.features&featureShared != 0
	s.granted = uint32(peer.credits)
	s.headers = headers
	s.share = memoryShare{conn: l.stream, block: poolBlock(s.payload)}
	if l.budget != nil {
		s.share.memory = &l.budget.sending
	}
}

// credits returns the number of frames that the peer takes.
func (s *sender) credits() int { return int(s.granted - s.sent) }

// pending returns the number of bytes that are not in a frame.
func (s *sender) pending() int {
	n := s.curEnd - s.curFrom
	for _, g := range s.queue.All() {
		n += g.n
	}
	return n
}

// dataDue reports whether to send a frame with data or with the end of the stream. A partly filled buffer
// waits while earlier data is in flight, so that small writes are sent together.
func (s *sender) dataDue() bool {
	partly := s.curEnd > s.curFrom
	return s.queue.Len() > 0 || partly && (s.data == 0 || s.fin != finNone) || s.fin == finWanted
}

// pump sends the frames that are due and that the credits and the send queue allow. The last credit is
// kept for frames that grant credits, so these can always be sent. The caller holds the lock.
func (l *link) pump() {
	s := &l.send
	for !l.broken && !l.mute && !l.freed {
		switch {
		case s.inFlight < maxSends && s.credits() >= 2 && s.dataDue():
			l.sendData()
		case s.inFlight < maxSends+controlSends && s.credits() >= 2 && (s.greeting || s.confirm):
			l.post(&frame{}, nil, 0)
		case s.inFlight < maxSends+controlSends && s.credits() >= 1 && l.recv.due():
			l.post(&frame{}, nil, 0)
		default:
			l.countStall()
			return
		}
	}
}

// sendData sends the next data. The caller holds the lock.
func (l *link) sendData() {
	s := &l.send
	l.stalled = false
	var f frame
	var b *block
	from := 0
	switch {
	case s.queue.Len() > 0:
		g := s.queue.Front()
		b, from, f.length = g.block, g.from, min(g.n, s.payload)
		if g.from, g.n = g.from+f.length, g.n-f.length; g.n > 0 {
			b.refs++
		} else {
			s.queue.Pop() // the frame takes its reference
		}
	case s.curEnd > s.curFrom:
		b, from, f.length = s.cur, s.curFrom, min(s.curEnd-s.curFrom, s.payload)
		b.refs++
		s.curFrom += f.length
	}
	if s.fin == finWanted && s.pending() == 0 {
		f.flags |= flagFIN
		s.fin = finSent
	}
	l.post(&f, b, from)
}

// post posts a frame. It takes over the reference to b, which may be nil. The caller holds the
// lock and has checked that there is a credit and room in the send queue.
func (l *link) post(f *frame, b *block, from int) {
	s, r := &l.send, &l.recv
	if s.confirm {
		f.flags |= flagFINAck
	}
	s.greeting, s.confirm = false, false
	s.sent++
	l.stats.sent.Add(uint64(f.length))
	f.sent, f.granted = s.sent, r.granted()
	r.announced, r.owed = f.granted, 0
	o := s.outgoing
	if o == nil {
		o = &outgoing{l: l, header: s.made * frameLen}
		o.done = o.completed
		s.made++
	} else {
		s.outgoing = o.next
	}
	o.block, o.n, o.next = b, f.length, nil
	if f.length > 0 {
		s.data++
	}
	wr := verbs.SendWR{Opcode: verbs.OpSend}
	var sg [2]verbs.SGE
	if n := frameLen + f.length; n <= s.inline && (b == nil || b.buf.Bytes() != nil) {
		f.put(s.scratch[:])
		if b != nil {
			copy(s.scratch[frameLen:n], b.buf.Bytes()[from:])
		}
		wr.InlineData = s.scratch[:n]
	} else {
		f.put(s.headers.Bytes()[o.header:])
		sg[0] = s.headers.Slice(o.header, frameLen)
		wr.SGList = sg[:1]
		if f.length > 0 {
			sg[1] = b.buf.Slice(from, f.length)
			wr.SGList = sg[:2]
		}
	}
	s.inFlight++
	// The send queue has room, so this does not wait.
	if err := l.posts.Go(context.Background(), &wr, nil, o.done); err != nil {
		l.recycle(o)
		l.lost(err)
	}
}

// completed handles the completion of the frame. err is the error of the send.
func (o *outgoing) completed(err error) {
	l := o.l
	l.mu.Lock()
	l.recycle(o)
	if err != nil {
		l.lost(err)
	}
	l.wakeWrite = true
	l.pump()
	l.unlock()
}

// recycle frees the memory of a frame that is no longer in flight. The caller holds the lock.
func (l *link) recycle(o *outgoing) {
	s := &l.send
	s.inFlight--
	if o.n > 0 {
		s.data--
		s.buffered -= o.n
		s.unref(o.block)
		o.block, o.n = nil, 0
	}
	o.next, s.outgoing = s.outgoing, o
	if s.inFlight == 0 && l.freed {
		s.headers.Free()
	} else {
		s.dropUnused()
	}
}

// dropUnused frees cur if neither a writer nor data in flight needs it, because an idle connection needs no
// memory.
func (s *sender) dropUnused() {
	if s.data == 0 && s.curFrom == s.curEnd && !s.curBusy {
		s.dropCur()
	}
}

func (s *sender) dropCur() {
	if s.cur != nil {
		s.unref(s.cur)
		s.cur = nil
	}
	s.curFrom, s.curEnd = 0, 0
}

// writable returns the error of a write, nil if data can be sent. The caller holds the lock.
func (l *link) writable() error {
	switch {
	case l.err != nil:
		return l.err
	case l.send.fin != finNone:
		return syscall.EPIPE
	}
	return nil
}

// Space implements streamconn.Protocol.
func (l *link) Space() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.send
	if err := l.writable(); err != nil {
		return nil, err
	}
	if l.broken || l.freed || s.buffered >= l.opts.SendBuffer || s.cur == nil && !l.takeCur() {
		return nil, nil
	}
	s.curBusy = true
	return s.cur.buf.Bytes()[s.curEnd:], nil
}

// takeCur gets memory for data without waiting. It reports whether there was some. The caller holds the
// lock.
func (l *link) takeCur() bool {
	s := &l.send
	if s.cur = s.spare; s.cur != nil {
		s.spare = nil
		return true
	}
	if s.awaiting {
		return false
	}
	c, ok := l.takeShare(s.payload)
	if !ok {
		return false
	}
	b, err := l.pool.TryGet(s.payload)
	if err != nil {
		l.awaitMemory(c)
		return false
	}
	s.cur = s.newBlock(b, c)
	return true
}

// takeShare is s.share.take, and counts the waits, once until memory is taken. The caller holds the lock.
func (l *link) takeShare(n int) (charge, bool) {
	c, ok := l.send.share.take(poolBlock(n))
	if !ok && !l.starved {
		l.stats.memoryStalls++
	}
	l.starved = !ok
	return c, ok
}

// awaitMemory starts a goroutine that waits until the program frees memory of the pool. c is the charge of
// the memory. The caller holds the lock.
func (l *link) awaitMemory(c charge) {
	s := &l.send
	s.awaiting = true
	l.stats.memoryStalls++
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		defer cancel()
		b, err := l.pool.Get(ctx, s.payload)
		l.mu.Lock()
		defer l.unlock()
		s.awaiting, s.cancel = false, nil
		l.wakeWrite = true
		if err != nil {
			s.share.release(c)
			if !l.freed {
				l.lost(err)
			}
			return
		}
		s.spare = s.newBlock(b, c)
		if l.freed {
			s.dropSpare()
		}
	}()
}

// Commit implements streamconn.Protocol.
func (l *link) Commit(n int) error {
	sends, err := l.commit(n)
	if sends >= pollSends || n >= pollBytes {
		l.poll()
	}
	return err
}

// commit is Commit without polling. It returns the number of frames with data in flight.
func (l *link) commit(n int) (sends int, err error) {
	l.mu.Lock()
	defer l.unlock()
	s := &l.send
	s.curBusy = false
	if n > 0 {
		err = l.writable()
	}
	if n == 0 || err != nil {
		s.dropUnused()
		return s.data, err
	}
	s.curEnd += n
	s.buffered += n
	if s.curEnd == s.cur.buf.Len() {
		l.queueCur()
		s.dropCur()
	}
	l.pump()
	return s.data, nil
}

// queueCur moves the data of cur to the queue. The caller holds the lock.
func (l *link) queueCur() {
	s := &l.send
	if s.curEnd > s.curFrom {
		s.cur.refs++
		s.queue.Push(segment{s.cur, s.curFrom, s.curEnd - s.curFrom})
		s.curFrom = s.curEnd
	}
}

// handover queues memory of the program, and takes over its reference. It returns false if there is no
// room.
func (l *link) handover(b *pool.Buf) (bool, error) {
	l.mu.Lock()
	defer l.unlock()
	s := &l.send
	if err := l.writable(); err != nil {
		return false, err
	}
	if l.broken || l.freed || s.buffered >= l.opts.SendBuffer {
		return false, nil
	}
	c := uncharged
	if b.Pool() == l.pool {
		var ok bool
		if c, ok = l.takeShare(b.Len()); !ok {
			return false, nil
		}
	}
	l.queueCur()
	s.queue.Push(segment{s.newBlock(b, c), 0, b.Len()})
	s.buffered += b.Len()
	l.pump()
	return true, nil
}

// CloseWrite implements streamconn.Protocol.
func (l *link) CloseWrite() error {
	l.mu.Lock()
	defer l.unlock()
	if l.err != nil {
		return l.err
	}
	l.endWrite()
	return nil
}

// endWrite ends the outgoing stream after its data. The caller holds the lock.
func (l *link) endWrite() {
	if l.send.fin == finNone {
		l.send.fin = finWanted
		l.pump()
	}
}
