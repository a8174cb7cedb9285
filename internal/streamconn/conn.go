// SPDX-License-Identifier: Apache-2.0

package streamconn

import (
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Protocol moves the bytes of one connection. A Conn calls View and Release from one goroutine at
// a time, and Space and Commit from one goroutine at a time. The other methods may be called at
// any time. No method but Close waits for the peer.
type Protocol interface {
	// View returns received bytes, the oldest first, and nothing if none have arrived. It
	// returns at least the bytes of the last View that were not released. After the last byte
	// of the stream its error is io.EOF.
	View() ([]byte, error)
	// Release consumes the first n bytes of the last View, so that the protocol may reuse their memory.
	// The other bytes are not used until the next View. After CloseRead or Close, Release discards
	// them.
	Release(n int)
	// Space returns memory for bytes to send, and nothing if there is none at the moment.
	Space() ([]byte, error)
	// Commit ends the use of the last Space, and sends its first n bytes after all earlier bytes. The
	// protocol may send several small commits together. After CloseWrite, Close or a failure, Commit
	// returns an error and takes no bytes. Commit(0) does not fail.
	Commit(n int) error
	// CloseRead makes View return io.EOF, and discards the bytes that the peer sends.
	CloseRead() error
	// CloseWrite ends the outgoing stream after all committed bytes. Space fails from then on.
	CloseWrite() error
	// Close ends the connection. linger bounds how long Close may wait until the peer has taken the
	// committed bytes: see [Conn.SetLinger]. A negative value means the protocol's default.
	Close(linger time.Duration) error

	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// Conn is a net.Conn on a Protocol. All methods may be called concurrently.
type Conn struct {
	p          Protocol
	closed     atomic.Bool
	readClosed atomic.Bool  // set by CloseRead and Close
	linger     atomic.Int64 // time.Duration
	rd, wr     half
}

var (
	_ net.Conn      = (*Conn)(nil)
	_ io.ReaderFrom = (*Conn)(nil)
	_ io.WriterTo   = (*Conn)(nil)
)

// New returns a Conn on a Protocol.
func New(p Protocol) *Conn {
	c := &Conn{p: p}
	c.linger.Store(-1)
	c.rd.init(&c.closed)
	c.wr.init(&c.closed)
	return c
}

// WakeReader makes a waiting Read call View again. The functions for protocols are not methods, because
// the exported types of connections embed a Conn.
func WakeReader(c *Conn) { c.rd.poke() }

// WakeWriter makes a waiting Write call Space again.
func WakeWriter(c *Conn) { c.wr.poke() }

// PollWhileWaiting makes waiting calls wait for signals instead of sleeping, before the first call. The
// signals are for calls that read, and for calls that write.
func PollWhileWaiting(c *Conn, read, write Signal) { c.rd.signal, c.wr.signal = read, write }

// unlockRead releases the lock of a call that reads, and the bytes of a Peek after CloseRead or Close.
func (c *Conn) unlockRead() {
	c.rd.mu.Unlock()
	c.dropView()
}

// dropView releases the bytes of a Peek after CloseRead or Close. If another call is reading, unlockRead
// does this at the end of that call.
func (c *Conn) dropView() {
	if c.readClosed.Load() && c.rd.mu.TryLock() {
		c.p.Release(0)
		c.rd.mu.Unlock()
	}
}

// Read reads received bytes into b. It waits until there is at least one. At the end of the stream
// the error is io.EOF.
func (c *Conn) Read(b []byte) (int, error) {
	c.rd.mu.Lock()
	defer c.unlockRead()
	if len(b) == 0 {
		if c.closed.Load() {
			return 0, c.opError("read", net.ErrClosed)
		}
		return 0, nil
	}
	view, err := c.rd.await(c.p.View)
	n := 0
	for err == nil && len(view) > 0 && n < len(b) {
		m := copy(b[n:], view)
		c.p.Release(m)
		n += m
		if n < len(b) {
			view, _ = c.p.View() // the buffer may continue at its start
		}
	}
	return n, c.opError("read", err)
}

// firstChunk and maxChunk bound the bytes that are committed at a time. The first chunk of a Write
// is small, so that the device sends it while the next one is copied.
const (
	firstChunk = 8 << 10
	maxChunk   = 64 << 10
)

// Write sends b. It returns when the protocol has copied all of b, which may then be reused. If
// Write fails, n is the number of bytes that the protocol has taken before. A concurrent CloseWrite makes
// Write fail with syscall.EPIPE.
func (c *Conn) Write(b []byte) (n int, err error) { return WriteWith(c, b, c.p.Space, c.p.Commit) }

// WriteWith is Write with other functions than the protocol's Space and Commit.
func WriteWith(c *Conn, b []byte, space func() ([]byte, error), commit func(n int) error) (n int, err error) {
	c.wr.mu.Lock()
	defer c.wr.mu.Unlock()
	if len(b) == 0 {
		return 0, c.opError("write", c.wr.err())
	}
	for chunk := firstChunk; n < len(b); chunk = min(2*chunk, maxChunk) {
		mem, err := c.wr.await(space)
		if err != nil {
			return n, c.opError("write", err)
		}
		m := copy(mem, b[n:min(n+chunk, len(b))])
		if err := commit(m); err != nil {
			return n, c.opError("write", c.wr.cause(err))
		}
		n += m
	}
	return n, nil
}

// Peek waits for received bytes and returns the contiguous part of them, without consuming it. The bytes
// stay valid until the next Read, Discard, WriteTo, CloseRead or Close. After Close their memory may be
// unmapped. At the end of the stream the error is io.EOF.
func (c *Conn) Peek() ([]byte, error) {
	c.rd.mu.Lock()
	defer c.unlockRead()
	b, err := c.rd.await(c.p.View)
	return b, c.opError("read", err)
}

// Discard consumes the next n bytes, and waits for them if need be. It returns the number of
// consumed bytes, which is less than n only with an error.
func (c *Conn) Discard(n int) (int, error) {
	c.rd.mu.Lock()
	defer c.unlockRead()
	for done := 0; ; {
		if done >= n {
			return done, nil
		}
		view, err := c.rd.await(c.p.View)
		if err != nil {
			return done, c.opError("read", err)
		}
		m := min(len(view), n-done)
		c.p.Release(m)
		done += m
	}
}

// WriteTo writes the received bytes to w until the end of the stream, without a copy of its own. A
// concurrent Read waits until it returns.
func (c *Conn) WriteTo(w io.Writer) (n int64, err error) {
	c.rd.mu.Lock()
	defer c.unlockRead()
	for {
		view, err := c.rd.await(c.p.View)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, c.opError("read", err)
		}
		m, err := w.Write(view)
		if m < 0 || m > len(view) {
			return n, errInvalidWrite
		}
		c.p.Release(m)
		n += int64(m)
		if err != nil {
			return n, err
		}
		if m < len(view) {
			return n, io.ErrShortWrite
		}
	}
}

// ReadFrom sends the bytes of r until io.EOF. r reads into the protocol's buffer, without another copy. A
// concurrent Write waits until ReadFrom returns. The write deadline ends a wait for the peer, and does not
// interrupt r. CloseWrite does not interrupt r either. If r returns bytes later, ReadFrom does not count them, and
// fails with syscall.EPIPE.
func (c *Conn) ReadFrom(r io.Reader) (n int64, err error) {
	c.wr.mu.Lock()
	defer c.wr.mu.Unlock()
	for {
		space, err := c.wr.await(c.p.Space)
		if err != nil {
			return n, c.opError("write", err)
		}
		space = space[:min(len(space), maxChunk)]
		m, err := r.Read(space)
		if m < 0 || m > len(space) {
			m, err = 0, errInvalidRead
		}
		if err := c.p.Commit(m); err != nil {
			return n, c.opError("write", c.wr.cause(err))
		}
		n += int64(m)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// CloseRead shuts down the reading side. Reads return io.EOF, and the bytes of the peer are
// discarded.
func (c *Conn) CloseRead() error {
	if c.closed.Load() {
		return c.opError("close", net.ErrClosed)
	}
	c.readClosed.Store(true)
	err := c.p.CloseRead()
	c.rd.poke()
	c.dropView()
	return c.opError("close", err)
}

// CloseWrite shuts down the writing side. The peer reads io.EOF after all bytes that were written.
// Most callers should use Close.
func (c *Conn) CloseWrite() error {
	if c.closed.Load() {
		return c.opError("close", net.ErrClosed)
	}
	err := c.p.CloseWrite()
	c.wr.poke()
	return c.opError("close", err)
}

// Close closes the connection. Waiting calls return an error that wraps net.ErrClosed, and so does a
// second Close. SetLinger determines whether Close sends or discards the bytes that the peer has not yet
// taken.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return c.opError("close", net.ErrClosed)
	}
	c.readClosed.Store(true)
	c.rd.poke()
	c.wr.poke()
	c.dropView()
	c.rd.deadline.close()
	c.wr.deadline.close()
	return c.opError("close", c.p.Close(time.Duration(c.linger.Load())))
}

// WhenIdle calls f when no goroutine uses the protocol's buffers any more, and reports whether it has
// already called f. It is for protocols that free their buffers after Close. f runs at once if no Read or
// Write is in progress. Otherwise it runs later on a goroutine of its own, because a ReadFrom or WriteTo
// holds a buffer until its other side returns.
func WhenIdle(c *Conn, f func()) bool {
	run := func() {
		c.rd.mu.Lock()
		defer c.rd.mu.Unlock()
		c.wr.mu.Lock()
		defer c.wr.mu.Unlock()
		f()
	}
	if c.rd.mu.TryLock() {
		defer c.rd.mu.Unlock()
		if c.wr.mu.TryLock() {
			defer c.wr.mu.Unlock()
			f()
			return true
		}
	}
	go run()
	return false
}

// SetLinger sets how Close treats bytes that the peer has not yet taken.
//
// If sec is negative, which is the default, Close waits as long as the peer continues to take them. It
// returns after a second without progress, and a goroutine continues to send the rest. That goroutine
// stops after a minute without progress. The bytes are lost if the process ends before.
//
// If sec is 0, Close discards the bytes. If sec is positive, Close waits for up to sec seconds, and then
// discards the rest and returns an error that wraps os.ErrDeadlineExceeded.
func (c *Conn) SetLinger(sec int) error {
	if c.closed.Load() {
		return c.opError("set", net.ErrClosed)
	}
	c.linger.Store(int64(time.Duration(max(sec, -1)) * time.Second))
	return nil
}

// SetDeadline sets the deadlines of reading and writing. See net.Conn.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadline(t, &c.rd, &c.wr) }

// SetReadDeadline sets the deadline of reading. See net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, &c.rd) }

// SetWriteDeadline sets the deadline of writing. See net.Conn. Bytes that a Write has copied before
// its deadline are sent.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, &c.wr) }

func (c *Conn) setDeadline(t time.Time, halves ...*half) error {
	if c.closed.Load() {
		return c.opError("set", net.ErrClosed)
	}
	for _, h := range halves {
		h.deadline.set(t)
	}
	return nil
}

// LocalAddr returns the connection's own address.
func (c *Conn) LocalAddr() net.Addr { return c.p.LocalAddr() }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.p.RemoteAddr() }
