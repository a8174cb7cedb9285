// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/pool"
	"purerdma/verbs"
)

// Operations of errors.
const (
	opDial    = "connect"
	opListen  = "listen"
	opAccept  = "accept"
	opSend    = "send"
	opCall    = "call"
	opReply   = "reply"
	opReceive = "receive"
	opLend    = "lend memory on"
	opRevoke  = "take back memory from"
	opRead    = "read"
	opWrite   = "write"

	opConnection = "connection"
)

// Conn is a connection. Any number of goroutines may use it at a time.
//
// A Conn has no goroutine of its own. One of the goroutines that wait in Receive, Call or Send takes the
// peer's frames for all of them. While no goroutine waits, the peer can send as many messages as
// Options.Window allows.
//
// Locks are taken in this order: Conn.mu, then the locks of packages inflight and pool.
type Conn struct {
	opts  Options
	conn  *cm.Conn
	queue *inflight.Queue
	pool  *pool.Pool
	// failed is sendFailed. It is a field because a method value is allocated.
	failed func(error)
	// inline is the length of the longest frame that needs no registered memory, in bytes.
	inline int
	// poller polls for the peer's frames.
	poller *inflight.Signal
	// binds is set if memory is lent by windows of type 2.
	binds bool
	// unpolled counts the frames since the last poll of the send CQ.
	unpolled atomic.Int32
	// memoryStalls counts the waits for memory.
	memoryStalls atomic.Uint64

	mu    sync.Mutex // guards the following fields
	recv  receiver
	send  sender
	calls calls
	loans loans
	// reads and writes have the transfers of lent memory.
	reads, writes bulk
	// mute is set while this side must not send. On iWARP that is the accepting side, until the
	// first frame has arrived (RFC 5044, 7.1).
	mute bool
	// err is the reason for which the connection has failed, nil if it has not.
	err error
	// queued is set if frames wait for unlock to post them.
	queued bool
	// closed is set by Close.
	closed bool
	// over ends with the connection. It is the parent of the contexts of messages.
	over       context.Context
	cancelOver context.CancelFunc
	stats      Stats // CreditStalls only
	// waiters and messages are unused ones.
	waiters  []*waiter
	messages []*Message
}

// newConn starts the protocol on an established connection, whose peer has sent a hello.
func newConn(conn *cm.Conn, opts Options, peer hello, passive bool) (*Conn, error) {
	queue, err := conn.Operations()
	if err != nil {
		return nil, err
	}
	c := &Conn{opts: opts, conn: conn, queue: queue, pool: conn.Pool()}
	c.failed = c.sendFailed
	c.inline = min(conn.QP().Cap().Inline, len(c.send.scratch))
	c.over, c.cancelOver = context.WithCancel(context.Background())
	c.recv.window, c.recv.announced = opts.Window, uint32(opts.Window)
	c.recv.open = make([]*Message, peer.calls)
	c.send.payload, c.send.window, c.send.granted = peer.slot-headerLen, uint32(peer.window), uint32(peer.window)
	c.send.most = mostInFlight(peer, conn.QP().Cap().SendWR)
	iwarp := conn.Device().Transport() == verbs.TransportIWARP
	c.poller = c.newSignal()
	c.binds = bindsWindows(conn.Device())
	c.loans.open = map[*Loan]struct{}{}
	c.reads.most, c.writes.most = maxChunks, maxChunks
	if depth := conn.ReadDepth(); depth >= 0 {
		c.reads.most = max(1, min(depth, maxChunks)) // a READ with a depth of 0 fails
	}
	c.mute = iwarp && passive
	c.send.greeting = iwarp && !passive
	conn.HandleMessagesLazily(c.handle, 0)
	c.mu.Lock()
	defer c.unlock()
	c.pump()
	return c, nil
}

// unlock releases the lock, and posts the frames of this critical section. It rings the doorbell without the lock. So
// the frames that other goroutines send in the meantime share the next doorbell.
func (c *Conn) unlock() {
	queued := c.queued
	c.queued = false
	c.mu.Unlock()
	if queued {
		c.queue.Flush()
	}
}

// LocalAddr returns the connection's own address.
func (c *Conn) LocalAddr() net.Addr { return c.conn.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// PD returns the protection domain of the connection, for memory of transfers and MRs of Memory.
func (c *Conn) PD() *verbs.PD { return c.conn.PD() }

// Pool returns a pool of PD. No peer can reach its memory.
func (c *Conn) Pool() *pool.Pool { return c.pool }

// MaxLen returns the length in bytes of the longest message, request or reply that the peer takes.
func (c *Conn) MaxLen() int { return c.send.payload }

// Done returns a channel that is closed when the connection becomes unusable. If no goroutine
// uses the connection, only its end by one of the sides, the removal of the device and a failed
// keepalive are found.
func (c *Conn) Done() <-chan struct{} { return c.over.Done() }

// Err returns nil while the connection is usable, and then the reason for its end. After Close it is
// net.ErrClosed.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.unlock()
	if c.err == nil {
		return nil
	}
	return c.opError(opConnection, c.err)
}

// History returns the last events of the connection, with the frames as requests and messages. See
// cm.Conn.History. The errors of a broken connection wrap a *cm.BrokenError, which has the History at the time of
// the failure. History remains available after Close.
func (c *Conn) History() inflight.History { return c.conn.History() }

// opError returns the error of an operation, with the addresses of the connection.
func (c *Conn) opError(op string, err error) error {
	if oe, ok := errors.AsType[*cm.OpError](err); ok {
		err = oe.Err
	}
	if err == io.EOF {
		err = &cm.DisconnectedError{}
	}
	return &cm.OpError{Op: op, Local: c.conn.LocalAddr(), Remote: c.conn.RemoteAddr(), Err: err}
}

// waiter is a goroutine that waits for a message, a credit or a call. Conn.mu guards the fields
// except signal.
type waiter struct {
	signal *inflight.Signal
	done   bool
	// The result, of which one is set, or none for a credit.
	message *Message
	err     error
	// units is the number of receives that a new call waits for, or of bytes of a chunk.
	units int
}

// getWaiter returns an unused waiter. The caller holds the lock.
func (c *Conn) getWaiter() *waiter {
	if n := len(c.waiters); n > 0 {
		w := c.waiters[n-1]
		c.waiters = c.waiters[:n-1]
		return w
	}
	return &waiter{signal: c.newSignal()}
}

// newSignal returns a Signal for waits that poll for messages.
func (c *Conn) newSignal() *inflight.Signal { return inflight.NewSignal(c.conn.QP().RecvCQ()) }

// putWaiter takes back a waiter that is in no queue. The caller holds the lock.
func (c *Conn) putWaiter(w *waiter) {
	w.reset()
	c.waiters = append(c.waiters, w)
}

// reset prepares the waiter for another wait.
func (w *waiter) reset() {
	w.message, w.err, w.units = nil, nil, 0
	w.again()
}

// again prepares the waiter for another wait for the same result.
func (w *waiter) again() {
	w.done = false
	w.signal.Reset()
}

// wait waits until w is done. The caller holds the lock, which wait releases during the wait. If it
// returns an error, the context has ended, and w is not done. If the CQ cannot be polled, the connection fails.
func (c *Conn) wait(ctx context.Context, w *waiter) error {
	c.unlock()
	err := w.signal.Wait(ctx)
	c.mu.Lock()
	if !w.done && err != nil && ctx.Err() == nil {
		c.fail(err) // which finishes w
	}
	if w.done {
		return nil
	}
	return err
}

// finish ends the wait of a goroutine. The caller holds the lock of the connection.
func (w *waiter) finish() {
	w.done = true
	w.signal.Set()
}

// fail ends the connection for its users. The caller holds the lock.
func (c *Conn) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	c.cancelOver()
	for c.recv.waiting.Len() > 0 {
		c.recv.waiting.Pop().failed(err)
	}
	for c.send.waiting.Len() > 0 {
		c.send.waiting.Pop().failed(err)
	}
	if c.send.canceller != nil {
		c.send.canceller.failed(err)
	}
	for _, b := range []*bulk{&c.reads, &c.writes} {
		for b.waiting.Len() > 0 {
			b.waiting.Pop().failed(err)
		}
	}
	for _, m := range c.recv.open {
		if m != nil {
			m.wakeParts()
		}
	}
	c.calls.fail(err)
}

// failed ends the wait of a goroutine with an error.
func (w *waiter) failed(err error) {
	w.err = err
	w.finish()
}

// end takes the end of the connection after the last message.
func (c *Conn) end(err error) {
	c.mu.Lock()
	defer c.unlock()
	c.fail(err)
}

// sendFailed takes the error of a send. The end of the connection follows it.
func (c *Conn) sendFailed(err error) {
	c.mu.Lock()
	defer c.unlock()
	if !c.send.failed && !c.closed {
		c.send.failed = true
		go c.conn.Explain(err) // which records the cause, and may wait
	}
}

// closeGrace bounds how long Close waits for the peer's device.
const closeGrace = time.Second

// disconnect ends the connection of a peer that has violated the protocol.
func (c *Conn) disconnect() {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_, _ = c.conn.Disconnect(ctx) // Close ends the connection in any case
}

// Close ends the connection. Calls in progress fail, here with net.ErrClosed. Close waits until the peer
// has acknowledged the messages that were sent, but at most a second. On iWARP the last messages may be
// lost, because a send completes there when TCP has taken it. Close also closes the loans. Messages that
// Receive has returned stay valid until Free. Close may be called more than once. After an error it
// tries again.
func (c *Conn) Close() error {
	c.mu.Lock()
	flush := !c.closed && c.err == nil && !c.mute
	c.closed = true
	if c.err == nil {
		c.fail(net.ErrClosed)
	}
	c.err = net.ErrClosed
	var dropped []*Message
	for c.recv.messages.Len() > 0 {
		dropped = append(dropped, c.recv.messages.Pop())
	}
	c.unlock()
	if flush {
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		_ = c.conn.Probe(ctx) // behind all messages
		cancel()
	}
	for _, m := range dropped {
		m.Free()
	}
	return errors.Join(c.closeLoans(), c.conn.Close())
}
