// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"net"
	"syscall"
	"time"

	"purerdma/inflight"
	"purerdma/internal/streamconn"
	"purerdma/pool"
)

// stream is a private name of streamconn.Conn, so that Conn has no exported field for it.
type stream = streamconn.Conn

// Conn is a stream connection over RDMA. It implements net.Conn with the semantics of a
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
// consuming it. The bytes stay valid until the next Read, Discard, WriteTo, CloseRead or Close. Discard
// consumes n bytes, and waits for them. WriteBuf writes without a copy. ReadFrom reads into memory for one
// frame, which the connection holds also while ReadFrom waits for its source.
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

// RDMA returns true. TCPConn.RDMA returns false.
func (c *Conn) RDMA() bool { return true }

// SetKeepAlive enables or disables the probes of an idle peer. Dialer.CM and ListenConfig.CM have the initial setting.
// SetKeepAlive(true) restores the last idle time, which is 15 seconds at first. A closed connection ignores the call.
func (c *Conn) SetKeepAlive(keepalive bool) error {
	if !keepalive {
		return c.setKeepAlive(-1)
	}
	return c.setKeepAlive(0)
}

// SetKeepAlivePeriod enables the probes of an idle peer and sets the idle time before a probe. It fails with
// syscall.EINVAL unless d is positive. See Dialer.KeepAlive of package cm. A closed connection ignores the call.
func (c *Conn) SetKeepAlivePeriod(d time.Duration) error {
	if d <= 0 {
		return streamconn.OpError("set", syscall.EINVAL)
	}
	return c.setKeepAlive(d)
}

func (c *Conn) setKeepAlive(period time.Duration) error {
	if err := c.l.conn.SetKeepAlive(period); err != nil {
		return streamconn.OpError("set", err)
	}
	return nil
}

// History returns the last events of the connection that carries the stream, with the frames as requests and
// messages. See cm.Conn.History. The errors of a broken connection wrap a *cm.BrokenError, which has the History
// at the time of the failure. History remains available after Close.
func (c *Conn) History() inflight.History { return c.l.conn.History() }

// Pool returns the pool of the memory for WriteBuf. Connections may share it. Write also takes its memory
// from this pool, so a Write can wait for memory that the program holds. See SharedConfig.SendBytes for the
// memory that a connection of a Shared may use.
func (c *Conn) Pool() *pool.Pool { return c.l.pool }

// WriteBuf sends the bytes of a Buf without a copy. The Buf is of Pool, or of another pool on its
// protection domain. WriteBuf takes over the caller's reference, even if it fails, and frees it when the
// bytes have been sent. The bytes must not change before that. WriteBuf returns when the bytes are queued,
// in order with the bytes of other writes. While Options.SendBuffer bytes or more are queued, or while
// the connection has more than its share of SharedConfig.SendBytes, it waits for room, and fails at the write
// deadline. The errors are as for Write.
func (c *Conn) WriteBuf(b *pool.Buf) error {
	err := streamconn.Handover(c.stream, func() (bool, error) { return c.l.handover(b) })
	if err != nil {
		b.Free()
		return err
	}
	c.l.poll()
	return nil
}
