// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"net"
	"syscall"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/internal/streamconn"
)

// stream is a private name of streamconn.Conn, so that Conn has no exported field for it.
type stream = streamconn.Conn

// Conn is a connection of the rsocket protocol. It implements net.Conn with the semantics of a
// net.TCPConn. Its errors are *net.OpError. All methods may be called concurrently.
//
// A Conn also has the following methods, which go doc does not list:
//
//	CloseRead() error
//	CloseWrite() error
//	SetLinger(sec int) error
//	ReadFrom(r io.Reader) (int64, error)
//	WriteTo(w io.Writer) (int64, error)
//	Peek() ([]byte, error)
//	Discard(n int) (int, error)
//
// Peek waits for received bytes and returns the contiguous part of them, without a copy and without
// consuming it. The bytes stay valid until the next Read, Discard, WriteTo, CloseRead or Close. After
// Close their memory may be unmapped. Discard consumes n bytes, and waits for them. The peer can write
// to the receive buffer at any time, so a hostile peer can change bytes of Peek while the program uses
// them.
//
// By default Close waits as long as the peer continues to take written bytes. It returns after a second
// without progress, and a goroutine continues to send the rest until a minute has passed without
// progress. Those bytes are lost if the process ends before. SetLinger(0) makes Close discard the bytes.
// With a positive sec, Close waits up to sec seconds, and then discards the rest and returns an error that
// wraps os.ErrDeadlineExceeded.
type Conn struct {
	*stream
	l *link
}

var _ net.Conn = (*Conn)(nil)

// History returns the last events of the connection, with the requests and messages of the rsocket protocol. See
// cm.Conn.History. The errors of a broken connection wrap a *cm.BrokenError, which has the
// History at the time of the failure. History remains available after Close.
func (c *Conn) History() inflight.History { return c.l.conn.History() }

// Stats returns the counts of the connection that carries the stream. See cm.Conn.Stats. ConnStats.Operations is
// zero, because the connection posts its requests to the QP itself. Stats remains available after Close.
func (c *Conn) Stats() cm.ConnStats { return c.l.conn.Stats() }

// SetKeepAlive enables or disables the probes of an idle peer. The idle time before a probe is
// Options.KeepAlive, or 15 seconds if that is negative. The error is nil, and a closed connection ignores
// the call.
func (c *Conn) SetKeepAlive(keepalive bool) error {
	if !keepalive {
		c.l.setKeepAlive(0)
		return nil
	}
	period := c.l.opts.KeepAlive
	if period < 0 {
		period = defaultKeepAlive
	}
	return c.SetKeepAlivePeriod(period)
}

// SetKeepAlivePeriod enables the probes of an idle peer and sets the idle time before a probe. It fails
// with syscall.EINVAL unless d is positive. If the peer's device does not acknowledge a probe within d,
// and at least 5 seconds, the connection fails with syscall.ETIMEDOUT.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	if d <= 0 {
		return c.opError("set", syscall.EINVAL)
	}
	c.l.setKeepAlive(d)
	return nil
}

func (c *Conn) opError(op string, err error) error {
	local := c.LocalAddr()
	return &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: c.RemoteAddr(), Err: err}
}
