// SPDX-License-Identifier: Apache-2.0

package streamconn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

// limit bounds the waits of the tests.
const limit = 20 * time.Second

// loop is a Protocol that sends its bytes to itself. It has a buffer of a few bytes.
type loop struct {
	conn   *Conn
	mu     sync.Mutex
	buf    []byte
	unread int
	eof    bool
	shut   bool          // no more bytes are read
	linger time.Duration // of Close
}

func newLoop(size int) *loop {
	l := &loop{buf: make([]byte, size)}
	l.conn = New(l)
	return l
}

func (l *loop) View() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unread == 0 && l.eof || l.shut {
		return nil, io.EOF
	}
	return l.buf[:l.unread], nil
}

func (l *loop) Release(n int) {
	l.mu.Lock()
	if l.shut {
		n = l.unread
	}
	copy(l.buf, l.buf[n:l.unread])
	l.unread -= n
	l.mu.Unlock()
	WakeWriter(l.conn)
}

func (l *loop) Space() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf[l.unread:], nil
}

func (l *loop) Commit(n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > 0 && l.eof {
		return syscall.EPIPE
	}
	l.unread += n
	WakeReader(l.conn)
	return nil
}

func (l *loop) CloseRead() error {
	l.mu.Lock()
	l.shut = true
	l.mu.Unlock()
	return nil
}

func (l *loop) CloseWrite() error {
	l.mu.Lock()
	l.eof = true
	l.mu.Unlock()
	WakeReader(l.conn)
	return nil
}

func (l *loop) Close(linger time.Duration) error {
	l.linger = linger
	return nil
}

func (l *loop) LocalAddr() net.Addr  { return &net.UnixAddr{Name: "loop", Net: "test"} }
func (l *loop) RemoteAddr() net.Addr { return l.LocalAddr() }

// TestWaits interrupts waiting calls by a deadline that was set before the call, by a deadline that is set
// during the call, and by Close.
func TestWaits(t *testing.T) {
	testWaits(t, func(*Conn) {})
}

// TestWaitsForSignals is TestWaits with signals.
func TestWaitsForSignals(t *testing.T) {
	testWaits(t, func(c *Conn) { PollWhileWaiting(c, newSignal(nil), newSignal(nil)) })
}

// TestWaitsForFailingSignals is TestWaits with signals that cannot poll.
func TestWaitsForFailingSignals(t *testing.T) {
	testWaits(t, func(c *Conn) { PollWhileWaiting(c, newSignal(io.ErrUnexpectedEOF), newSignal(io.ErrUnexpectedEOF)) })
}

// signal is a Signal that polls nothing.
type signal struct {
	set chan struct{}
	err error
}

func newSignal(err error) *signal { return &signal{set: make(chan struct{}, 1), err: err} }

func (s *signal) Wait(context.Context) error {
	if s.err == nil {
		<-s.set
	}
	return s.err
}

func (s *signal) Set() {
	select {
	case s.set <- struct{}{}:
	default:
	}
}

func (s *signal) Reset() {
	select {
	case <-s.set:
	default:
	}
}

func testWaits(t *testing.T, start func(*Conn)) {
	full := func(c *Conn) error { _, err := c.Write(make([]byte, 100)); return err }
	for op, call := range map[string]func(*Conn) error{
		"read":    func(c *Conn) error { _, err := c.Read(make([]byte, 1)); return err },
		"peek":    func(c *Conn) error { _, err := c.Peek(); return err },
		"discard": func(c *Conn) error { _, err := c.Discard(1); return err },
		"copy":    func(c *Conn) error { _, err := c.WriteTo(io.Discard); return err },
		"write":   full,
		"fill":    func(c *Conn) error { _, err := c.ReadFrom(strings.NewReader(strings.Repeat("x", 100))); return err },
	} {
		for name, tc := range map[string]struct {
			before, during func(*Conn)
			want           error
		}{
			"past":   {before: func(c *Conn) { c.SetDeadline(time.Unix(1, 0)) }, want: os.ErrDeadlineExceeded},
			"future": {before: func(c *Conn) { c.SetDeadline(time.Now().Add(10 * time.Millisecond)) }, want: os.ErrDeadlineExceeded},
			"during": {during: func(c *Conn) { c.SetDeadline(time.Unix(1, 0)) }, want: os.ErrDeadlineExceeded},
			"close":  {during: func(c *Conn) { c.Close() }, want: net.ErrClosed},
		} {
			t.Run(op+" "+name, func(t *testing.T) {
				c := newLoop(10).conn
				start(c)
				if tc.before != nil {
					tc.before(c)
				}
				result := make(chan error, 1)
				go func() { result <- call(c) }()
				if tc.during != nil {
					tc.during(c)
				}
				select {
				case err := <-result:
					var oe *net.OpError
					if !errors.Is(err, tc.want) || !errors.As(err, &oe) || oe.Net != "test" {
						t.Errorf("%s = %v, want a *net.OpError with %v", op, err, tc.want)
					}
				case <-time.After(limit):
					t.Fatalf("%s hangs", op)
				}
			})
		}
	}
}

// TestDeadlineReplaced checks that an earlier deadline has no effect after it was replaced, even if
// its timer runs late.
func TestDeadlineReplaced(t *testing.T) {
	l := newLoop(10)
	l.conn.SetDeadline(time.Unix(1, 0))
	l.conn.SetDeadline(time.Now().Add(time.Hour))
	l.conn.rd.deadline.fire()
	if _, err := l.conn.Write([]byte("hello")); err != nil {
		t.Errorf("Write: %v", err)
	}
	got := make([]byte, 10)
	if n, err := l.conn.Read(got); string(got[:n]) != "hello" || err != nil {
		t.Errorf("Read() = %q, %v, want %q", got[:n], err, "hello")
	}
	l.conn.SetDeadline(time.Unix(1, 0))
	l.conn.SetDeadline(time.Time{})
	if _, err := l.conn.Write([]byte("x")); err != nil {
		t.Errorf("Write() without a deadline: %v", err)
	}
}

// TestPartialWrite checks the byte count of a Write that a deadline interrupts.
func TestPartialWrite(t *testing.T) {
	l := newLoop(10)
	type result struct {
		n   int
		err error
	}
	written := make(chan result)
	go func() {
		n, err := l.conn.Write(make([]byte, 100))
		written <- result{n, err}
	}()
	for b, _ := l.View(); len(b) < 10; b, _ = l.View() {
		time.Sleep(time.Millisecond)
	}
	l.conn.SetWriteDeadline(time.Unix(1, 0))
	if r := <-written; r.n != 10 || !errors.Is(r.err, os.ErrDeadlineExceeded) {
		t.Errorf("Write() = %d, %v, want 10 and a timeout", r.n, r.err)
	}
}

// TestCloseReadDiscards checks that CloseRead frees the buffer for a waiting Write, after a Peek and
// during a WriteTo.
func TestCloseReadDiscards(t *testing.T) {
	for name, use := range map[string]func(c *Conn) (end func()){
		"after Peek": func(c *Conn) func() {
			c.Peek()
			return func() {}
		},
		"during WriteTo": func(c *Conn) func() {
			r, w := io.Pipe()
			go c.WriteTo(w)
			r.Read(make([]byte, 1))
			return func() { r.Close() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newLoop(10).conn
			c.Write(make([]byte, 10))
			end := use(c)
			written := make(chan error, 1)
			go func() {
				_, err := c.Write(make([]byte, 10))
				written <- err
			}()
			c.CloseRead()
			end()
			select {
			case err := <-written:
				if err != nil {
					t.Errorf("Write: %v", err)
				}
			case <-time.After(limit):
				t.Error("Write hangs after CloseRead")
			}
		})
	}
}

// TestLinger checks the argument of the protocol's Close.
func TestLinger(t *testing.T) {
	for sec, want := range map[int]time.Duration{-5: -time.Second, 0: 0, 3: 3 * time.Second} {
		l := newLoop(1)
		l.conn.SetLinger(sec)
		l.conn.Close()
		if l.linger != want {
			t.Errorf("SetLinger(%d): Close(%v), want %v", sec, l.linger, want)
		}
	}
}

// badIO returns impossible counts.
type badIO struct{}

func (badIO) Read([]byte) (int, error)  { return 1000, nil }
func (badIO) Write([]byte) (int, error) { return 1000, nil }

func TestInvalidCounts(t *testing.T) {
	c := newLoop(10).conn
	if _, err := c.ReadFrom(badIO{}); err != errInvalidRead {
		t.Errorf("ReadFrom() = %v, want %v", err, errInvalidRead)
	}
	c.Write([]byte("x"))
	if _, err := c.WriteTo(badIO{}); err != errInvalidWrite {
		t.Errorf("WriteTo() = %v, want %v", err, errInvalidWrite)
	}
}

// closer is a Protocol that is closed while View looks for bytes.
type closer struct{ *loop }

func (c closer) View() ([]byte, error) {
	c.conn.Close()
	return c.loop.View()
}

// TestCloseDuringRead checks that a Read during Close does not report the end of the stream.
func TestCloseDuringRead(t *testing.T) {
	l := newLoop(1)
	l.conn = New(closer{l})
	l.shut = true
	if n, err := l.conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read() = %d, %v, want 0, %v", n, err, net.ErrClosed)
	}
}

// earlyEnd is a Protocol whose outgoing stream is ended while Space looks for memory.
type earlyEnd struct {
	*loop
	end func() error
}

func (e earlyEnd) Space() ([]byte, error) {
	defer e.end()
	return e.loop.Space()
}

// TestEndDuringWrite checks that bytes are not counted if CloseWrite or Close comes before their Commit.
func TestEndDuringWrite(t *testing.T) {
	for name, write := range map[string]func(c *Conn) (int64, error){
		"Write": func(c *Conn) (int64, error) {
			n, err := c.Write([]byte("x"))
			return int64(n), err
		},
		"ReadFrom": func(c *Conn) (int64, error) { return c.ReadFrom(iotest.DataErrReader(strings.NewReader("x"))) },
	} {
		for end, want := range map[string]error{"CloseWrite": syscall.EPIPE, "Close": net.ErrClosed} {
			l := newLoop(10)
			e := earlyEnd{l, l.CloseWrite}
			l.conn = New(&e)
			if end == "Close" {
				e.end = func() error { return errors.Join(l.CloseWrite(), l.conn.Close()) }
			}
			if n, err := write(l.conn); n != 0 || !errors.Is(err, want) {
				t.Errorf("%s() during %s = %d, %v, want 0, %v", name, end, n, err, want)
			}
			if l.unread != 0 {
				t.Errorf("%s() during %s: unread = %d, want 0", name, end, l.unread)
			}
		}
	}
	l := newLoop(10)
	l.conn = New(earlyEnd{l, l.CloseWrite})
	if n, err := l.conn.ReadFrom(strings.NewReader("")); n != 0 || err != nil {
		t.Errorf("ReadFrom() of no bytes during CloseWrite = %d, %v, want 0, <nil>", n, err)
	}
}

// blockingReader is a reader whose only Read has begun when called is closed, and returns when returns is
// closed.
type blockingReader struct{ called, returns chan struct{} }

func (r blockingReader) Read([]byte) (int, error) {
	close(r.called)
	<-r.returns
	return 0, io.EOF
}

// TestWhenIdle checks that buffers are not freed while a call uses them.
func TestWhenIdle(t *testing.T) {
	c := newLoop(10).conn
	freed := make(chan struct{})
	r := blockingReader{make(chan struct{}), make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.ReadFrom(r)
	}()
	<-r.called
	c.Close()
	if WhenIdle(c, func() { close(freed) }) {
		t.Error("WhenIdle() = true while ReadFrom runs, want false")
	}
	select {
	case <-freed:
		t.Error("the function ran while ReadFrom used the buffer")
	default:
	}
	close(r.returns)
	<-done
	<-freed
	if !WhenIdle(c, func() {}) {
		t.Error("WhenIdle() = false on an idle connection, want true")
	}
}
