// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/internal/streamconn"
	"purerdma/verbs"
)

// messageLen is the length of a message on iWARP in bytes.
const messageLen = 4

// ctrlSlots is the number of entries of the send queue that are reserved for messages other than
// data. Credits can therefore always be returned, and two sides whose data queues are full do not
// wait for each other.
const ctrlSlots = 4

// extraRecvs is the number of posted receives beyond the credits that the peer gets for data. The
// peer's other messages need no credit. Two updates of the SGL, two updates of credits, a shutdown
// and a disconnect can arrive before this side handles a completion.
const extraRecvs = 8

// link is the protocol of one connection. It implements streamconn.Protocol.
//
// The goroutine that polls the CQ calls handle, which posts the receives again and sends the data that had to
// wait. That goroutine is a waiting Read or Write, or the one of package inflight, which each CQ has.
type link struct {
	stream *streamconn.Conn
	opts   Options
	iwarp  bool

	conn     *cm.Conn
	cq       *verbs.CQ
	qp       *verbs.QP
	recvMR   *verbs.MR        // memory of the receive buffer, the lists that the peer writes, and iWARP's messages.
	sendMR   *verbs.MR        // memory of the send buffer, and the control messages that are not inline.
	messages []byte           // on iWARP, a message for each receive.
	nextRecv int              // index of the next receive in messages.
	reads    *inflight.Signal // of the waiting reader.
	log      *inflight.Log    // for History

	settled chan struct{} // has a token when Close should check again whether all bytes were sent.

	mu    sync.Mutex // guards the following fields.
	peer  connData
	order binary.ByteOrder // of the peer's memory.
	recv  receiver
	send  sender
	maps  mappings
	alive keepalive

	ctrlFree int    // free entries of the reserved part of the send queue.
	ctrlSeq  uint32 // counts control messages that are not inline.
	// mute is set while this side must not send. On iWARP that is the accepting side, until the
	// first message has arrived (RFC 5044, 7.1).
	mute bool
	// closing is set by Close.
	closing bool
	// peerGone is set when the peer has closed both directions.
	peerGone bool
	// flushed is set when a work request has failed. The QP is then in the error state, and further
	// failures are ignored.
	flushed bool
	// err is the first error of the connection, nil while it works.
	err error
	// wakeRead and wakeWrite make unlock wake the reader and the writer.
	wakeRead, wakeWrite bool

	sendWR [2]verbs.SendWR
	sendSG [1]verbs.SGE
	entry  [mapLen]byte // an encoded entry of a list.
	inline [messageLen]byte
}

var _ streamconn.Protocol = (*link)(nil)

// newLink makes the QP, the CQ and the buffers for a pending connection, and posts its receives. After an
// error, the caller closes or rejects p and then calls end.
func newLink(p cm.PendingConn, opts Options) (*link, error) {
	dev := p.Device()
	l := &link{
		iwarp:    dev.Transport() == verbs.TransportIWARP,
		settled:  make(chan struct{}, 1),
		ctrlFree: ctrlSlots,
	}
	l.opts = opts.forDevice(dev.Attr(), l.iwarp)
	l.stream = streamconn.New(l)
	if err := l.makeQP(p); err != nil {
		return l, err
	}
	l.log = inflight.NewLog(l.cq)
	return l, l.makeBuffers()
}

func (l *link) makeQP(p cm.PendingConn) (err error) {
	recvs := l.opts.RecvQueue + extraRecvs
	if l.cq, err = p.Device().CreateCQ(verbs.CQConfig{Entries: l.opts.SendQueue + recvs, Spin: l.opts.Spin}); err != nil {
		return err
	}
	err = p.ID().CreateQP(nil, verbs.QPConfig{
		Cap:       verbs.QPCap{SendWR: l.opts.SendQueue, RecvWR: recvs, SendSGE: 1, RecvSGE: 1, Inline: l.opts.Inline},
		SendCQ:    l.cq,
		RecvCQ:    l.cq,
		SignalAll: true,
	})
	if err != nil {
		return err
	}
	l.qp = p.ID().QP()
	l.opts.Inline = l.qp.Cap().Inline
	if l.iwarp && l.opts.Inline < messageLen {
		return fmt.Errorf("the QP takes %d bytes inline, want %d: %w", l.opts.Inline, messageLen, errors.ErrUnsupported)
	}
	return nil
}

// makeBuffers registers the buffers.
func (l *link) makeBuffers() (err error) {
	pd := l.qp.PD()
	recvs := l.opts.RecvQueue + extraRecvs
	size := l.opts.RecvBuffer + sglLen*sgeLen + l.opts.Maps*mapLen
	messages := size
	if l.iwarp {
		size += recvs * messageLen
	}
	if l.recvMR, err = pd.Alloc(size, verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		return err
	}
	if l.sendMR, err = pd.Alloc(l.opts.SendBuffer+ctrlSlots*sgeLen+mapLen, verbs.LocalWrite); err != nil {
		return err
	}
	mem := l.recvMR.Bytes()
	l.messages = mem[messages:]
	l.recv.init(mem[:l.opts.RecvBuffer], l.opts.RecvQueue)
	l.send.init(mem[l.opts.RecvBuffer:][:sglLen*sgeLen], l.sendMR.Bytes(), l.opts)
	l.maps.init(mem[l.opts.RecvBuffer+sglLen*sgeLen : messages])
	return l.postRecvs(recvs)
}

// connData returns the private data for the peer.
func (l *link) connData() connData {
	base, key := l.recvMR.Addr(), l.recvMR.RKey()
	return connData{
		flags:   nativeFlags(),
		credits: uint16(l.opts.RecvQueue),
		maps:    l.opts.Maps,
		sgl:     sge{addr: base + uint64(l.opts.RecvBuffer), key: key, length: sglLen},
		data:    sge{addr: base, key: key, length: uint32(l.recv.half())},
	}
}

var errByteOrder = fmt.Errorf("the hosts have different byte orders, which rsockets on iWARP do not support: %w", errors.ErrUnsupported)

// setPeer takes the private data of the peer. It fails if the byte orders differ on iWARP.
func (l *link) setPeer(peer connData) error {
	if l.iwarp && (peer.flags^nativeFlags())&flagNet != 0 {
		return errByteOrder
	}
	l.peer, l.order = peer, peer.order()
	l.send.start(peer)
	return nil
}

// start starts the protocol on an established connection. passive is set on the accepting side.
func (l *link) start(conn *cm.Conn, passive bool) *Conn {
	l.conn = conn
	conn.SetLog(l.log)
	l.mute = l.iwarp && passive
	c := &Conn{stream: l.stream, l: l}
	l.reads = inflight.NewSignal(l.cq)
	streamconn.PollWhileWaiting(l.stream, l.reads, inflight.NewSignal(l.cq))
	l.mu.Lock()
	l.giveCredits()
	l.startKeepAlive(l.opts.KeepAlive, passive) // whose timer may wake readers and writers
	l.mu.Unlock()
	inflight.HandleCompletions(l.cq, l.handle, streamconn.PollAfter)
	return c
}

// LocalAddr implements streamconn.Protocol.
func (l *link) LocalAddr() net.Addr { return l.conn.LocalAddr() }

// RemoteAddr implements streamconn.Protocol.
func (l *link) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

// violation returns an error that wraps syscall.EPROTO.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w of the peer: %s", syscall.EPROTO, fmt.Sprintf(format, args...))
}

// fail records the first error of the connection. The caller holds mu. unlock then moves the QP to the
// error state.
func (l *link) fail(err error) {
	if l.err == nil {
		l.err = err
	}
	l.wakeRead, l.wakeWrite = true, true
}

// unlock releases mu, wakes the goroutines that may continue, and stops the QP of a connection
// that has failed.
func (l *link) unlock() {
	read, write := l.wakeRead, l.wakeWrite
	l.wakeRead, l.wakeWrite = false, false
	stop := l.err != nil && !l.flushed
	l.mu.Unlock()
	if stop {
		_ = l.qp.Modify(&stopped, verbs.QPAttrState) // fails if the QP has been closed
	}
	if read {
		streamconn.WakeReader(l.stream)
	}
	if write {
		streamconn.WakeWriter(l.stream)
	}
	if read || write {
		select {
		case l.settled <- struct{}{}:
		default:
		}
	}
}

// stopped is the attribute that moves a QP to the error state.
var stopped = verbs.QPAttr{State: verbs.QPErr}
