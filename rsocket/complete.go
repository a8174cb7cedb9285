// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"encoding/binary"
	"syscall"

	"purerdma/internal/streamconn"
	"purerdma/verbs"
)

// handle handles completions. A waiting Read or Write that polls calls it, or a goroutine of package inflight. err
// is the error of a CQ that cannot be polled.
func (l *link) handle(wcs []verbs.WC, err error) {
	l.mu.Lock()
	defer l.unlock()
	if err != nil {
		l.stop(streamconn.Cause(err))
		return
	}
	var failure error // of the first work request that has failed
	recvs := 0
	for i := range wcs {
		wc := &wcs[i]
		if wc.ID&kindMask == kindRecv {
			l.log.Received(wc)
		} else {
			l.log.Completed(wc)
		}
		switch {
		case wc.Status != verbs.WCSuccess:
			if !l.flushed {
				l.flushed, failure = true, wc.Err()
			}
			if wc.ID&kindMask == kindRecv {
				l.recv.ended, l.wakeRead = true, true
			}
		case wc.ID&kindMask == kindRecv:
			recvs++
			if err := l.received(wc); err != nil {
				l.fail(err)
			}
		default:
			l.sent(wc.ID)
		}
	}
	if l.err == nil && !l.flushed {
		if err := l.postRecvs(recvs); err != nil {
			l.fail(streamconn.Cause(err))
		}
	}
	l.giveCredits()
	l.flush()
	if l.closing || l.flushed {
		l.wakeWrite = true
	}
	if failure != nil {
		l.broke(failure)
	}
}

// stop ends the link after its last completion. From then on it does not use its buffers. The caller holds mu.
func (l *link) stop(err error) {
	l.flushed, l.recv.ended = true, true
	l.fail(err)
}

// received handles a message of the peer. Its error wraps EPROTO.
func (l *link) received(wc *verbs.WC) error {
	if l.recv.ended {
		return nil // the buffers may have been freed
	}
	m := message(wc.ImmData)
	if l.iwarp {
		if wc.ByteLen != messageLen {
			return violation("a message of %d bytes, want %d", wc.ByteLen, messageLen)
		}
		m = message(binary.NativeEndian.Uint32(l.messages[uint32(wc.ID)*messageLen:]))
	} else if wc.Flags&verbs.WCWithImm == 0 {
		return violation("a message without immediate data")
	}
	if l.mute {
		l.mute, l.wakeWrite = false, true
	}
	l.alive.touch()
	if l.peerGone {
		return nil
	}
	switch m.op() {
	case opData, opDataMore:
		l.wakeRead = true
		return l.recv.arrived(m.arg())
	case opSGL:
		l.send.lastSeq = uint16(m.arg())
		l.send.takeWindow()
	case opIOMap:
		if int(m.arg()) >= l.opts.Maps {
			return violation("%v of %d", m, l.opts.Maps)
		}
		l.maps.arrived(int(m.arg()))
		l.recv.seq++ // the message has used a credit
	case opCtrl:
		return l.control(m)
	default:
		return violation("%v", m)
	}
	return nil
}

// control handles an opCtrl.
func (l *link) control(m message) error {
	switch m.arg() {
	case ctrlKeepAlive:
		return nil
	case ctrlShutdown:
		l.peerGone = l.send.finPosted != finNone
	case ctrlDisconnect:
		l.peerGone = true
	default:
		return violation("%v", m)
	}
	l.recv.eof = true
	l.wakeRead, l.wakeWrite = true, true
	return nil
}

// sent handles the successful completion of a send request.
func (l *link) sent(id uint64) {
	s := &l.send
	n := uint64(uint32(id))
	switch id & kindMask {
	case kindCtrl:
		l.ctrlFree++
	case kindProbe:
		l.ctrlFree++
		l.alive.answered()
	case kindMessage:
		s.slots++
	case kindData:
		s.slots++
		s.inFlight--
		s.acked += n
		l.alive.touch()
		l.wakeWrite = l.wakeWrite || s.free() >= min(lowWater, int(s.size))
	case kindDirect:
		s.slots++
		l.maps.acked += n
		l.wakeWrite = true
	case kindMap:
		s.slots++
		l.maps.sending = false
	}
}

// broke fails the connection after a failed work request. If the peer has disconnected, or if Close was
// called, the failure is a consequence, and its error is ECONNRESET. Otherwise a goroutine gets the cause from
// the cm.Conn, which may wait. The caller holds mu.
func (l *link) broke(failure error) {
	if l.peerGone || l.closing || l.err != nil {
		l.fail(syscall.ECONNRESET)
		return
	}
	go func() {
		err := streamconn.Cause(l.conn.Explain(failure))
		l.mu.Lock()
		l.fail(err)
		l.unlock()
	}()
}
