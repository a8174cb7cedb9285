// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

// TestFallback dials a port with a TCP listener and no RDMA listener.
func TestFallback(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer ln.Close()
	k := streamconntest.RXE(t)
	d := stream.Dialer{CM: cm.Dialer{Host: k.Host()}}
	if c, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String()); err == nil {
		t.Errorf("DialContext = %v without Fallback, want an error", c)
	}
	d.Fallback = &net.Dialer{}
	c, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("DialContext: %v", err)
	}
	defer c.Close()
	tcp, ok := c.(*stream.TCPConn)
	if !ok || tcp.RDMA() || tcp.Cause == nil {
		t.Errorf("DialContext = %#v, want a TCPConn with its cause", c)
	}
	if _, ok := c.(tcpMethods); !ok {
		t.Errorf("DialContext = %T, want the methods of a net.TCPConn", c)
	}
}

// tcpMethods are methods of a net.TCPConn that a net.Conn does not have.
type tcpMethods interface {
	CloseRead() error
	CloseWrite() error
	io.ReaderFrom
	io.WriterTo
	syscall.Conn
}

// TestFallbackFails dials a port without a listener. The error has the causes of both attempts.
func TestFallbackFails(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	ln.Close()
	k := streamconntest.RXE(t)
	for want, fallback := range map[error]*net.Dialer{
		syscall.ECONNREFUSED:     {},
		context.DeadlineExceeded: {Deadline: time.Unix(1, 0)},
	} {
		d := stream.Dialer{CM: cm.Dialer{Host: k.Host()}, Fallback: fallback}
		_, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		oe, ok := err.(*net.OpError)
		if !ok || !errors.Is(err, want) || !errors.Is(err, syscall.ENODEV) {
			t.Errorf("DialContext = %v, want a *net.OpError with %v and %v", err, syscall.ENODEV, want)
			continue
		}
		if got, want := oe.Timeout(), want == context.DeadlineExceeded; got != want {
			t.Errorf("Timeout() of %v = %v, want %v", err, got, want)
		}
	}
}

// TestFallbackUnused connects over RDMA. The context of the attempt does not end the connection.
func TestFallbackUnused(t *testing.T) {
	k := streamconntest.RXE(t)
	ln := listen(t, k, ends{})
	d := stream.Dialer{CM: cm.Dialer{Host: k.Host()}, Fallback: &net.Dialer{}}
	c, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("DialContext: %v", err)
	}
	defer streamconntest.Abort(c.(*stream.Conn))
	echo := accept(t, ln)
	go io.Copy(echo, streamconntest.OnlyReader(echo))
	pingPong(t, c)
}

// nearDeadline is a context whose deadline is near when it is read for the first time.
type nearDeadline struct {
	context.Context
	read bool
}

// Deadline implements context.Context.
func (c *nearDeadline) Deadline() (time.Time, bool) {
	if c.read {
		return c.Context.Deadline()
	}
	c.read = true
	return time.Now().Add(20 * time.Millisecond), true
}

// TestFallbackAfterSilence dials a peer that does not answer over RDMA. TCP is tried before the context ends.
func TestFallbackAfterSilence(t *testing.T) {
	k := streamconntest.RXE(t)
	ln := listen(t, k, ends{})
	k.OnMessage(func(cmtest.Message) (cmtest.Fate, time.Duration) { return cmtest.Arrives, time.Hour })
	tried := errors.New("TCP was tried")
	d := stream.Dialer{CM: cm.Dialer{Host: k.Host()}, Fallback: &net.Dialer{
		Control: func(string, string, syscall.RawConn) error { return tried },
	}}
	_, err := d.DialContext(&nearDeadline{Context: streamconntest.Deadline(t)}, "tcp", ln.Addr().String())
	if !errors.Is(err, tried) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("DialContext = %v, want an error with %v and %v", err, tried, context.DeadlineExceeded)
	}
}

// TestTimeForTCP checks that RDMA leaves a part of the time to TCP.
func TestTimeForTCP(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
	defer cancel()
	half, cancel := stream.HalfTime(ctx)
	defer cancel()
	whole, _ := ctx.Deadline()
	if end, ok := half.Deadline(); !ok || whole.Sub(end) < 30*time.Minute {
		t.Errorf("Deadline() of HalfTime = %v, %v, want about an hour before %v", end, ok, whole)
	}
	half, cancel = stream.HalfTime(t.Context())
	defer cancel()
	if end, ok := half.Deadline(); ok {
		t.Errorf("Deadline() of HalfTime without one = %v, want none", end)
	}
}
