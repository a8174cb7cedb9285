// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streamconntest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// HalfClose sends a question, ends that direction, and sends an answer in the other direction.
func HalfClose(t *testing.T, c, s Conn) {
	io.WriteString(c, "question")
	if err := c.CloseWrite(); err != nil {
		t.Errorf("CloseWrite: %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write() after CloseWrite = %v, want %v", err, syscall.EPIPE)
	}
	if got, err := io.ReadAll(s); string(got) != "question" || err != nil {
		t.Errorf("ReadAll() = %q, %v, want %q", got, err, "question")
	}
	io.WriteString(s, "answer")
	s.Close()
	if got, err := io.ReadAll(c); string(got) != "answer" || err != nil {
		t.Errorf("ReadAll() = %q, %v, want %q", got, err, "answer")
	}
}

// stepReader is a source whose reads the test answers one by one. A closed answers is the end.
type stepReader struct {
	asked   chan struct{} // has a token for each Read that has begun
	answers chan string
}

func (r stepReader) Read(b []byte) (int, error) {
	r.asked <- struct{}{}
	answer, ok := <-r.answers
	if !ok {
		return 0, io.EOF
	}
	return copy(b, answer), nil
}

// CloseWriteDuringReadFrom calls CloseWrite while ReadFrom waits for its source. Bytes that come later are
// refused, and the other direction continues.
func CloseWriteDuringReadFrom(t *testing.T, c, s Conn) {
	endDuringReadFrom(t, c, s, c.CloseWrite, syscall.EPIPE)
	if _, err := io.WriteString(s, "answer"); err != nil {
		t.Errorf("WriteString: %v", err)
	}
	if err := s.CloseWrite(); err != nil {
		t.Errorf("CloseWrite: %v", err)
	}
	c.SetReadDeadline(time.Now().Add(Limit))
	if got, err := io.ReadAll(c); string(got) != "answer" || err != nil {
		t.Errorf("ReadAll() = %q, %v, want %q", got, err, "answer")
	}
}

// CloseDuringReadFrom is CloseWriteDuringReadFrom with Close.
func CloseDuringReadFrom(t *testing.T, c, s Conn) {
	endDuringReadFrom(t, c, s, c.Close, net.ErrClosed)
}

func endDuringReadFrom(t *testing.T, c, s Conn, end func() error, want error) {
	t.Helper()
	r := stepReader{make(chan struct{}), make(chan string)}
	var sender sync.WaitGroup
	sender.Go(func() {
		if n, err := c.ReadFrom(r); n != 6 || !errors.Is(err, want) {
			t.Errorf("ReadFrom() = %d, %v, want 6, %v", n, err, want)
		}
	})
	<-r.asked
	r.answers <- "before"
	<-r.asked
	if err := end(); err != nil {
		t.Errorf("end() = %v", err)
	}
	r.answers <- "after"
	sender.Wait()
	s.SetReadDeadline(time.Now().Add(Limit))
	if got, err := io.ReadAll(s); string(got) != "before" || err != nil {
		t.Errorf("ReadAll() = %q, %v, want %q", got, err, "before")
	}
}

// CloseRead fills the buffers of a connection. It checks that the writer continues after CloseRead of its
// peer, even after a Peek.
func CloseRead(t *testing.T, c, s Conn) {
	if _, err := io.WriteString(c, "x"); err != nil { // so that Peek returns
		t.Fatalf("Write: %v", err)
	}
	data := make([]byte, 64<<20) // before the deadline, because a busy machine may need longer to clear it
	c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := c.Write(data); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("Write() = %d, %v, want %v", n, err, os.ErrDeadlineExceeded)
	}
	s.SetReadDeadline(time.Now().Add(Limit))
	if _, err := s.Peek(); err != nil {
		t.Fatalf("Peek: %v", err)
	}
	if err := s.CloseRead(); err != nil {
		t.Errorf("CloseRead: %v", err)
	}
	if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("Read() after CloseRead = %d, %v, want 0, %v", n, err, io.EOF)
	}
	c.SetWriteDeadline(time.Now().Add(Limit))
	if n, err := c.Write(make([]byte, 4<<20)); err != nil {
		t.Errorf("Write() after CloseRead of the peer = %d, %v, want no error", n, err)
	}
}

// ClosedPeer checks the errors after the peer has closed the connection.
func ClosedPeer(t *testing.T, c, s Conn) {
	closedPeer(t, c, s, func() { s.Close() }, io.EOF)
}

// AbortedPeer checks the errors after the peer has closed the connection with a linger time of 0.
func AbortedPeer(t *testing.T, c, s Conn) {
	closedPeer(t, c, s, func() { Abort(s) }, syscall.ECONNRESET)
}

func closedPeer(t *testing.T, c, s Conn, end func(), read error) {
	io.WriteString(s, "last")
	got := make([]byte, 4)
	if _, err := io.ReadFull(c, got); string(got) != "last" || err != nil {
		t.Errorf("ReadFull() = %q, %v, want %q", got, err, "last")
	}
	end()
	c.SetDeadline(time.Now().Add(Limit))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, read) {
		t.Errorf("Read() = %v, want %v", err, read)
	}
	var err error
	for err == nil { // until the disconnect has arrived
		_, err = c.Write([]byte("x"))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Write() = %v, want %v", err, syscall.ECONNRESET)
	}
	if _, err := s.Read(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read() of the closed side = %v, want %v", err, net.ErrClosed)
	}
}

// Errors checks the type of errors and their addresses.
func Errors(t *testing.T, c, _ Conn) {
	c.SetReadDeadline(time.Now().Add(-1))
	_, err := c.Read(make([]byte, 1))
	oe, ok := errors.AsType[*net.OpError](err)
	if !ok || oe.Op != "read" || oe.Net != "rdma" || oe.Source != c.LocalAddr() || oe.Addr != c.RemoteAddr() || !oe.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read() after the deadline = %v, want a timeout of *net.OpError with the addresses of the connection", err)
	}
	c.Close()
	for name, err := range map[string]error{"Close": c.Close(), "SetDeadline": c.SetDeadline(time.Time{}), "CloseWrite": c.CloseWrite()} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s() after Close = %v, want %v", name, err, net.ErrClosed)
		}
	}
}

// KeepAlive unplugs the peer of an idle connection that probes it. A waiting Read fails with a timeout that is
// not its deadline.
func KeepAlive(t *testing.T, c Conn, unplug func() bool) {
	c.SetReadDeadline(time.Now().Add(Limit))
	read := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	unplug()
	err := <-read
	if oe, ok := err.(*net.OpError); !ok || !oe.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read() from an unplugged peer = %v, want a *net.OpError with the timeout of a probe", err)
	}
}

// SilentPeer writes to an unplugged peer. The write fails with a timeout that is not its deadline.
func SilentPeer(t *testing.T, c Conn, unplug func() bool) {
	unplug()
	c.SetWriteDeadline(time.Now().Add(Limit))
	var err error
	for err == nil {
		_, err = c.Write([]byte("x"))
	}
	if oe, ok := err.(*net.OpError); !ok || !oe.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write() to an unplugged peer = %v, want a *net.OpError with a timeout", err)
	}
}

// LingerBuffer is the size in bytes of the send buffer that Linger needs. It is more than a peer with the
// default options receives before its program reads.
const LingerBuffer = 1 << 20

// Linger closes a connection whose peer does not read.
func Linger(t *testing.T, c, _ Conn) {
	c.SetWriteDeadline(time.Now().Add(Limit))
	if n, err := c.Write(make([]byte, LingerBuffer)); err != nil {
		t.Fatalf("Write() = %d, %v, want %d", n, err, LingerBuffer)
	}
	c.SetLinger(1)
	if err := c.Close(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Close() with undelivered bytes = %v, want %v", err, os.ErrDeadlineExceeded)
	}
}

// LingerInBackground closes a connection whose peer does not read. The peer reads all bytes after Close has
// returned. When the test ends, the fake kernel checks that the background goroutine has closed the connection.
func LingerInBackground(t *testing.T, c, s Conn) {
	c.SetWriteDeadline(time.Now().Add(Limit))
	if n, err := c.Write(make([]byte, LingerBuffer)); err != nil {
		t.Fatalf("Write() = %d, %v, want %d", n, err, LingerBuffer)
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	s.SetReadDeadline(time.Now().Add(Limit))
	if got, err := io.ReadAll(s); len(got) != LingerBuffer || err != nil {
		t.Errorf("ReadAll() = %d bytes, %v, want %d", len(got), err, LingerBuffer)
	}
}
