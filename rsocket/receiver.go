// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"io"

	"purerdma/verbs"
)

// receiver is the receiving direction. The peer writes into the receive buffer, one half after the
// other, and sends a message for each piece. It may write into a half after this side has announced
// it. This side announces a half again when the program has consumed all its bytes.
type receiver struct {
	buf      []byte
	next     int // offset of the oldest unread byte.
	unread   int // bytes that have arrived and are not consumed.
	viewed   int // of these, the bytes that the program reads at the moment.
	granted  int // bytes that the peer may still write.
	released int // consumed bytes that are not announced.
	grantAt  int // offset of the next half to announce.

	lengths []uint32 // ring of the lengths of the unread messages.
	first   int      // index of the oldest one.
	count   int      // of them.

	credits  uint16 // messages that the peer may have outstanding.
	seq      uint16 // number of consumed messages.
	creditAt uint16 // value of seq from which the peer gets new credits.
	sglIndex uint32 // entry of the peer's SGL to write next.

	eof  bool // the peer sends no more data.
	shut bool // the program reads no more data.
	// ended is set after the last message. A send may fail before the messages that arrived earlier
	// have been handled.
	ended bool
}

func (r *receiver) init(buf []byte, queue int) {
	r.buf = buf
	r.granted = r.half() // the private data announces the first half
	r.released, r.grantAt = r.half(), r.half()
	r.lengths = make([]uint32, queue)
	r.credits = uint16(queue)
	r.creditAt = uint16(queue / 2)
	r.sglIndex = 1 // the private data fills the first entry
}

func (r *receiver) half() int { return len(r.buf) / 2 }

// arrived takes a message about n bytes that the peer has written.
func (r *receiver) arrived(n uint32) error {
	switch {
	case r.eof:
		return violation("%d bytes after the end of the stream", n)
	case uint64(n) > uint64(r.granted):
		return violation("%d bytes into a buffer of %d", n, r.granted)
	case r.count == len(r.lengths):
		return violation("more than %d unread messages", r.count)
	}
	r.granted -= int(n)
	r.unread += int(n)
	r.lengths[(r.first+r.count)%len(r.lengths)] = n
	r.count++
	if r.unread == 0 || r.shut && r.viewed == 0 {
		r.release(r.unread)
	}
	return nil
}

// view returns the unread bytes up to the end of the buffer.
func (r *receiver) view() []byte {
	return r.buf[r.next:][:min(r.unread, len(r.buf)-r.next)]
}

// release consumes n unread bytes, which may continue at the start of the buffer.
func (r *receiver) release(n int) {
	r.unread -= n
	r.released += n
	if r.next += n; r.next >= len(r.buf) {
		r.next -= len(r.buf)
	}
	for r.count > 0 && uint32(n) >= r.lengths[r.first] {
		n -= int(r.lengths[r.first])
		r.first = (r.first + 1) % len(r.lengths)
		r.count--
		r.seq++
	}
	if r.count > 0 {
		r.lengths[r.first] -= uint32(n)
	}
}

// due reports whether to grant the peer new credits, and whether to announce a half of the buffer with
// them.
func (r *receiver) due() (credits, half bool) {
	half = r.released >= r.half()
	return half || int16(r.seq-r.creditAt) >= 0, half
}

// View implements streamconn.Protocol.
func (l *link) View() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.recv.shut:
		return nil, io.EOF
	case l.recv.unread > 0:
		view := l.recv.view()
		l.recv.viewed = len(view)
		return view, nil
	case l.recv.eof:
		return nil, io.EOF
	case l.recv.ended:
		return nil, l.err
	}
	return nil, nil
}

// Release implements streamconn.Protocol.
func (l *link) Release(n int) {
	l.mu.Lock()
	l.recv.viewed = 0
	if l.recv.shut {
		n = l.recv.unread
	}
	l.recv.release(n)
	l.giveCredits()
	l.unlock()
}

// CloseRead implements streamconn.Protocol.
func (l *link) CloseRead() error {
	l.mu.Lock()
	l.shutRead()
	l.flush()
	l.unlock()
	return nil
}

// shutRead discards the unread bytes and all later bytes. Bytes that a Read copies at the moment stay
// until it releases them.
func (l *link) shutRead() {
	l.recv.shut = true
	if l.recv.viewed == 0 {
		l.recv.release(l.recv.unread)
		l.giveCredits()
	}
	if l.send.fin != finNone {
		l.send.fin = finDisconnect
	}
}

// giveCredits grants the peer new credits, and announces free halves of the buffer, if they are due.
func (l *link) giveCredits() {
	r := &l.recv
	need := 1
	if l.iwarp {
		need = 2
	}
	for !l.mute && l.usable() && !r.eof && l.ctrlFree >= need {
		due, half := r.due()
		if !due {
			return
		}
		r.creditAt = r.seq + r.credits/2
		m := newMessage(opSGL, uint32(r.seq)+uint32(r.credits))
		if !half {
			l.postCtrl(m)
			continue
		}
		grant := sge{addr: l.recvMR.Addr() + uint64(r.grantAt), key: l.recvMR.RKey(), length: uint32(r.half())}
		grant.put(l.entry[:], l.order)
		l.postEntry(m, l.peer.sgl.addr+uint64(r.sglIndex)*sgeLen, l.peer.sgl.key)
		r.released -= r.half()
		r.granted += r.half()
		r.grantAt = (r.grantAt + r.half()) % len(r.buf)
		r.sglIndex = (r.sglIndex + 1) % l.peer.sgl.length
	}
}

// postRecvs posts n receives.
func (l *link) postRecvs(n int) error {
	var wrs [32]verbs.RecvWR
	var sgs [32]verbs.SGE
	for n > 0 {
		batch := min(n, len(wrs))
		for i := range batch {
			wrs[i] = verbs.RecvWR{ID: kindRecv | uint64(l.nextRecv)}
			if l.iwarp {
				at := len(l.recvMR.Bytes()) - len(l.messages) + l.nextRecv*messageLen
				sgs[i] = l.recvMR.Slice(at, messageLen)
				wrs[i].SGList = sgs[i : i+1]
			}
			if l.nextRecv++; l.nextRecv == l.opts.RecvQueue+extraRecvs {
				l.nextRecv = 0
			}
		}
		if _, err := l.qp.PostRecv(wrs[:batch]); err != nil {
			return err
		}
		n -= batch
	}
	return nil
}
