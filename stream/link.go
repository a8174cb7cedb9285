// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/internal/streamconn"
	"purerdma/pool"
	"purerdma/verbs"
)

// link is the protocol of one connection. It implements streamconn.Protocol. It has no goroutine. The
// goroutine that polls the CQ calls handle for messages and the functions of sends.
//
// Locks are taken in this order: link.mu, then the locks of packages inflight and pool.
type link struct {
	stream *streamconn.Conn
	opts   Options
	iwarp  bool
	conn   *cm.Conn
	posts  *inflight.Queue // of conn
	pool   *pool.Pool
	reads  *inflight.Signal // of the waiting reader

	// qp and budget are nil if the connection has receives of its own.
	qp     *verbs.QP
	budget *budget
	waits  bool // in budget.waiting. Guarded by budget.mu

	settled chan struct{} // has a token when Close should check again whether all bytes were sent

	mu   sync.Mutex // guards the following fields
	recv receiver
	send sender
	// mute is set while this side must not send. On iWARP that is the accepting side, until the
	// first frame has arrived (RFC 5044, 7.1).
	mute bool
	// err is the first error of the connection, nil while it works.
	err error
	// broken is set after the first failure. err may be set later, because finding the cause can wait.
	broken bool
	// explaining is set after a failed send that names its cause, until err is set. The flush of the receives, which
	// follows it, names none.
	explaining bool
	// freed is set when the memory of the connection has been freed.
	freed bool
	stats stats
	// stalled is set while data waits for credits, and starved while a write waits for its share of the memory.
	stalled, starved bool
	// wakeRead and wakeWrite make unlock wake the reader and the writer.
	wakeRead, wakeWrite bool
}

var _ streamconn.Protocol = (*link)(nil)

var errNoCredits = fmt.Errorf("the receives of the Shared are used up: %w", syscall.ENOBUFS)

// newLink makes the QP and takes the credits for a pending connection. It may wait for credits until ctx
// ends. After an error the caller closes or rejects p.
func newLink(ctx context.Context, p cm.PendingConn, opts Options) (*link, error) {
	opts = opts.on(p.Device())
	l := &link{opts: opts, iwarp: p.Device().Transport() == verbs.TransportIWARP, settled: make(chan struct{}, 1)}
	l.stream = streamconn.New(l)
	l.recv.window = opts.Window
	if opts.Shared == nil {
		return l, nil
	}
	opts.Shared.enter()
	qp, err := p.QP()
	if err != nil {
		return nil, errors.Join(err, opts.Shared.leave())
	}
	l.qp = qp
	l.budget = opts.Shared.budgetOf(qp.SRQ())
	l.recv.window = l.budget.base(ctx, opts.Window)
	if l.recv.window == 0 {
		return nil, errors.Join(errNoCredits, l.leaveShared())
	}
	return l, nil
}

// leaveShared ends the use of the Shared after the connection was closed. Close may continue in the background or
// have failed. If the QP can still take receives, the connection keeps its credits as long as the QP exists.
func (l *link) leaveShared() error {
	if l.budget == nil {
		return nil
	}
	credits := l.recv.window
	leave := func() { l.opts.Shared.leaveBudget(l.qp.SRQ(), l.budget, credits) }
	if gone := l.qp.Done(); closed(gone) || l.qp.State() == verbs.QPErr {
		leave()
	} else {
		go func() {
			<-gone
			leave()
		}()
	}
	return l.opts.Shared.leave()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// hello returns the private data for the peer.
func (l *link) hello() []byte {
	h := hello{slot: l.opts.Slot, credits: l.recv.window}
	if l.budget != nil {
		h.features = featureShared
	}
	return h.encode()
}

// start starts the protocol on an established connection. peer is the hello of the peer, and passive is
// set on the accepting side. After an error the caller calls freeAll.
func (l *link) start(ctx context.Context, conn *cm.Conn, peer hello, passive bool) error {
	l.conn, l.pool = conn, conn.Pool()
	cq := conn.QP().RecvCQ()
	l.reads = inflight.NewSignal(cq)
	streamconn.PollWhileWaiting(l.stream, l.reads, inflight.NewSignal(cq))
	var err error
	if l.posts, err = conn.Operations(); err != nil {
		return err
	}
	headers, err := l.takeHeaders(ctx)
	if err != nil {
		return err
	}
	counting.QP(conn.QP(), "stream", l.count)
	l.mu.Lock()
	l.recv.announced = uint32(l.recv.window)
	l.send.start(l, peer, headers)
	l.mute = l.iwarp && passive
	if l.iwarp && !passive {
		l.send.greeting = true
		l.pump()
	}
	l.watchIdle()
	l.unlock()
	conn.HandleMessagesLazily(l.handle, streamconn.PollAfter)
	return nil
}

var errNoMemory = fmt.Errorf("the memory of the Shared is used up: %w", syscall.ENOBUFS)

// poll takes the available completions. The goroutines that read and write call it, so that a program which
// moves much data needs no other goroutine for this. The caller holds no lock.
func (l *link) poll() { _ = l.reads.Poll() } // an error shows in the next wait

// takeHeaders takes the memory for headers. It waits for memory that the program uses, at most for
// arrivalWait. Otherwise a listener could stop, because it waits for a bounded number of new connections.
func (l *link) takeHeaders(ctx context.Context) (*pool.Buf, error) {
	bounded, cancel := context.WithTimeout(ctx, arrivalWait)
	defer cancel()
	headers, err := l.pool.Get(bounded, headerBytes)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		err = errNoMemory
	}
	return headers, err
}

// LocalAddr implements streamconn.Protocol.
func (l *link) LocalAddr() net.Addr { return l.conn.LocalAddr() }

// RemoteAddr implements streamconn.Protocol.
func (l *link) RemoteAddr() net.Addr { return l.conn.RemoteAddr() }

// fail records the first error of the connection, and wakes the reader and the writer. The caller holds
// the lock.
func (l *link) fail(err error) {
	l.broken = true
	if l.err == nil {
		l.err = err
	}
	l.wakeRead, l.wakeWrite = true, true
}

// violated ends the connection of a peer that has violated the protocol. The caller holds the lock.
func (l *link) violated(err error) {
	l.recv.ended = true
	l.fail(err)
	go l.disconnect()
}

// lost ends the connection after a failed send. A goroutine finds the cause, which may wait, and then
// disconnects. The caller holds the lock.
func (l *link) lost(err error) {
	if l.broken {
		return
	}
	l.broken = true
	wc, ok := errors.AsType[*verbs.WCError](err)
	l.explaining = ok && wc.Status != verbs.WCWRFlushErr
	go func() {
		err := streamconn.Cause(l.conn.Explain(err)) // which may wait
		l.mu.Lock()
		l.explaining = false
		l.fail(err)
		l.unlock()
		l.disconnect()
	}()
}

// disconnect disconnects from the peer, so that handle is called with an error after the last message.
func (l *link) disconnect() {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_, _ = l.conn.Disconnect(ctx) // Close ends the connection in any case
}

// unlock releases the lock, and wakes the goroutines that may continue.
func (l *link) unlock() {
	read, write := l.wakeRead, l.wakeWrite
	l.wakeRead, l.wakeWrite = false, false
	l.mu.Unlock()
	if read {
		streamconn.WakeReader(l.stream)
	}
	if write {
		streamconn.WakeWriter(l.stream)
		select {
		case l.settled <- struct{}{}:
		default:
		}
	}
}

// Close returns when closeGrace has passed without progress. A goroutine then continues to wait, until
// lingerGrace has passed without progress.
const (
	closeGrace  = time.Second
	lingerGrace = time.Minute
)
