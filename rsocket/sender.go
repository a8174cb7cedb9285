// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"encoding/binary"
	"syscall"

	"purerdma/internal/streamconn"
	"purerdma/verbs"
)

// sender is the sending direction. The program's bytes go through a ring. Each message writes a
// piece of the ring to the memory that the peer has announced.
type sender struct {
	mem  []byte // the ring, and then the memory of the control messages that are not inline.
	size uint64 // of the ring.

	// Counts of bytes since the connection exists: written by the program, posted to the send
	// queue, and acknowledged. Their differences are at most size.
	committed, posted, acked uint64

	inFlight int // data messages that have not completed.
	slots    int // free entries of the send queue for data.

	sgl      []byte      // the list that the peer writes, in this host's byte order.
	windows  [sglLen]sge // memory that the peer has announced and that is not used up.
	current  int         // the window to write into.
	expected int         // the entry of sgl that the peer writes next.

	seq       uint16 // number of sent messages that need a credit.
	lastSeq   uint16 // value of seq at which the credits are used up.
	fin       fin    // the end of the stream, after the committed bytes.
	finPosted fin
}

// fin is the message that ends the outgoing stream.
type fin uint8

const (
	finNone fin = iota
	finShutdown
	finDisconnect
)

// lowWater is the number of free bytes in the ring that lets a waiting writer continue. Smaller pieces of
// data wait while earlier data is in flight, so that small writes are sent together.
const lowWater = 2048

// maxTransfer bounds the bytes of one message.
const maxTransfer = 64 << 10

func (s *sender) init(sgl, mem []byte, opts Options) {
	s.sgl, s.mem = sgl, mem
	s.size = uint64(opts.SendBuffer)
	s.slots = opts.SendQueue - ctrlSlots
}

// start takes the credits and the memory of the peer's private data.
func (s *sender) start(peer connData) {
	s.lastSeq = peer.credits
	s.windows[0] = peer.data
	s.expected = 1
}

func (s *sender) pending() int { return int(s.committed - s.posted) }
func (s *sender) free() int    { return int(s.size - (s.committed - s.acked)) }

// takeWindow takes the next entry of the list if the peer has written it and the previous memory of that
// entry is used up.
func (s *sender) takeWindow() {
	b := s.sgl[s.expected*sgeLen:][:sgeLen]
	w := sgeFrom(b, binary.NativeEndian)
	if w.length == 0 || s.windows[s.expected].length != 0 {
		return
	}
	clear(b)
	s.windows[s.expected] = w
	s.expected = (s.expected + 1) % sglLen
}

// nextPiece returns the number of data bytes for the next message, and 0 if no message can be sent now.
// slots is the number of send queue entries that a message takes.
func (s *sender) nextPiece(slots int) int {
	w := &s.windows[s.current]
	if s.slots < slots || s.seq == s.lastSeq || w.length == 0 {
		return 0
	}
	return min(s.pending(), maxTransfer, int(min(w.length, maxTransfer)), int(s.size-s.posted%s.size))
}

// advance records that n bytes are posted, and returns the memory of the peer for them.
func (s *sender) advance(n, slots int) (addr uint64, key uint32) {
	w := &s.windows[s.current]
	addr, key = w.addr, w.key
	w.addr += uint64(n)
	if w.length -= uint32(n); w.length == 0 {
		s.current = (s.current + 1) % sglLen
	}
	s.posted += uint64(n)
	s.seq++
	s.slots -= slots
	s.inFlight++
	return addr, key
}

// writable returns the error of a write, nil if data can be sent.
func (l *link) writable() error {
	switch {
	case l.send.fin != finNone:
		return syscall.EPIPE
	case l.err != nil:
		return l.err
	case l.peerGone:
		return syscall.ECONNRESET
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
	if s.free() < min(lowWater, int(s.size)) {
		return nil, nil
	}
	at := s.committed % s.size
	return s.mem[at:min(at+uint64(s.free()), s.size)], nil
}

// Commit implements streamconn.Protocol.
func (l *link) Commit(n int) error {
	if err := l.commit(n); err != nil {
		return err
	}
	if n >= pollBytes {
		_ = l.reads.Poll() // an error shows in the next wait
	}
	return nil
}

// commit is Commit without polling.
func (l *link) commit(n int) error {
	l.mu.Lock()
	defer l.unlock()
	if n == 0 {
		return nil
	}
	if err := l.writable(); err != nil {
		return err
	}
	l.send.committed += uint64(n)
	l.flush()
	return nil
}

// pollBytes is the number of bytes after which a writer polls. They take longer than a poll.
const pollBytes = 4 << 10

// CloseWrite implements streamconn.Protocol.
func (l *link) CloseWrite() error {
	l.mu.Lock()
	defer l.unlock()
	if l.err != nil {
		return l.err
	}
	if l.send.fin == finNone {
		l.send.fin = finShutdown
		if l.recv.eof || l.recv.shut {
			l.send.fin = finDisconnect
		}
		l.flush()
	}
	return nil
}

// usable reports whether the connection can send messages.
func (l *link) usable() bool { return l.err == nil && !l.flushed && !l.peerGone }

// slotsPerMessage returns how many entries of the send queue a message with data takes.
func (l *link) slotsPerMessage() int {
	if l.iwarp {
		return 2
	}
	return 1
}

// flush posts the committed bytes as far as the credits, the peer's memory and the send queue
// allow, and then the end of the stream. A small piece waits while an earlier message is in flight,
// so that small writes are sent together.
func (l *link) flush() {
	s := &l.send
	if l.mute || !l.usable() {
		return
	}
	slots := l.slotsPerMessage()
	if !l.postMaps() {
		return
	}
	for s.pending() > 0 {
		n := s.nextPiece(slots)
		if n == 0 || n < lowWater && n == s.pending() && s.inFlight > 0 && s.fin == finNone {
			return
		}
		l.postData(n)
		if l.err != nil {
			return
		}
	}
	if s.finPosted < s.fin && l.ctrlFree > 0 {
		code := uint32(ctrlShutdown)
		if s.fin == finDisconnect {
			code = ctrlDisconnect
		}
		s.finPosted = s.fin
		l.postCtrl(newMessage(opCtrl, code))
	}
}

// Kinds of work requests, in the high bits of their IDs. inflight.HandleCompletions needs the highest bit. The low
// 32 bits hold a number of bytes, or the index of a receive.
const (
	kindData    = 1<<63 | iota<<32 // WRITE of data.
	kindMessage                    // SEND after such a WRITE.
	kindDirect                     // WRITE to a mapping.
	kindMap                        // WRITE of an entry of the peer's list of mappings.
	kindCtrl                       // one entry of the reserved part of the send queue.
	kindProbe                      // likewise, of the keepalive.
	kindRecv
	kindMask = 1<<63 | 0xff<<32
)

// postData posts n committed bytes.
func (l *link) postData(n int) {
	s := &l.send
	at := int(s.posted % s.size)
	addr, key := s.advance(n, l.slotsPerMessage())
	l.prepareWrite(kindData|uint64(n), l.sendMR, at, n, addr, key)
	l.post(newMessage(opData, uint32(n)), kindMessage)
}

// prepareWrite prepares a WRITE of n bytes of registered memory. post or postPrepared follows.
func (l *link) prepareWrite(id uint64, mr *verbs.MR, at, n int, addr uint64, key uint32) {
	wr := &l.sendWR[0]
	*wr = verbs.SendWR{ID: id, Opcode: verbs.OpWrite, RemoteAddr: addr, RKey: key}
	if n <= l.opts.Inline {
		wr.InlineData = mr.Bytes()[at : at+n]
		return
	}
	l.sendSG[0] = mr.Slice(at, n)
	wr.SGList = l.sendSG[:]
}

// post posts the prepared WRITE with a message. second is the kind of iWARP's second request.
func (l *link) post(m message, second uint64) {
	n := 1
	if l.iwarp {
		l.prepareSend(1, m, second)
		n = 2
	} else {
		l.sendWR[0].Opcode, l.sendWR[0].ImmData = verbs.OpWriteImm, uint32(m)
	}
	l.postPrepared(n)
}

func (l *link) prepareSend(i int, m message, kind uint64) {
	binary.NativeEndian.PutUint32(l.inline[:], uint32(m))
	l.sendWR[i] = verbs.SendWR{ID: kind, Opcode: verbs.OpSend, InlineData: l.inline[:]}
}

// postPrepared posts the first n prepared requests. The queue has room for them, so an error ends
// the connection.
func (l *link) postPrepared(n int) {
	wrs := l.sendWR[:n]
	posted, err := l.qp.PostSend(wrs)
	l.log.Posted(wrs, posted, err)
	if err != nil {
		l.fail(streamconn.Cause(err))
	}
}

// postCtrl posts a message without data.
func (l *link) postCtrl(m message) {
	l.ctrlFree--
	if l.iwarp {
		l.prepareSend(0, m, kindCtrl)
	} else {
		l.sendWR[0] = verbs.SendWR{ID: kindCtrl, Opcode: verbs.OpWriteImm, ImmData: uint32(m)}
	}
	l.postPrepared(1)
}

// postEntry posts a message with the sge in l.entry, which is written to an entry of the peer's
// SGL.
func (l *link) postEntry(m message, addr uint64, key uint32) {
	l.ctrlFree -= l.slotsPerMessage()
	at := int(l.send.size) + int(l.ctrlSeq%ctrlSlots)*sgeLen
	l.ctrlSeq++
	copy(l.send.mem[at:], l.entry[:sgeLen])
	l.prepareWrite(kindCtrl, l.sendMR, at, sgeLen, addr, key)
	l.post(m, kindCtrl)
}
