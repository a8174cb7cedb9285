// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"purerdma/cm"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/internal/vmtest"
	"purerdma/pool"
	"purerdma/rsocket"
	"purerdma/stream"
)

// streamProtocols are package stream with its defaults, with the least receives, and package rsocket.
var streamProtocols = []protocol{
	streamProtocol("stream", 21, true,
		func(ctx context.Context, lc cm.ListenConfig, addr string) (net.Listener, error) {
			return (&stream.ListenConfig{CM: lc}).Listen(ctx, "tcp", addr)
		},
		func(ctx context.Context, d cm.Dialer, addr string) (net.Conn, error) {
			return (&stream.Dialer{CM: d}).DialContext(ctx, "tcp", addr)
		},
	),
	streamProtocol("stream with small windows", 16, true,
		func(ctx context.Context, lc cm.ListenConfig, addr string) (net.Listener, error) {
			return (&stream.ListenConfig{CM: lc, Private: true, Options: least}).Listen(ctx, "tcp", addr)
		},
		func(ctx context.Context, d cm.Dialer, addr string) (net.Conn, error) {
			return (&stream.Dialer{CM: d, Options: least}).DialContext(ctx, "tcp", addr)
		},
	),
	streamProtocol("rsocket", 21, false,
		func(ctx context.Context, lc cm.ListenConfig, addr string) (net.Listener, error) {
			return (&rsocket.ListenConfig{CM: lc}).Listen(ctx, "tcp", addr)
		},
		func(ctx context.Context, d cm.Dialer, addr string) (net.Conn, error) {
			return (&rsocket.Dialer{CM: d}).DialContext(ctx, "tcp", addr)
		},
	),
}

var least = stream.Options{Slot: 1024, Window: 3, SendBuffer: 4096}

// streamProtocol returns the protocol of a package that implements net.Conn. confirms is set if the peer confirms
// the end of a stream.
func streamProtocol(name string, bits int, confirms bool, listen func(context.Context, cm.ListenConfig, string) (net.Listener, error), dial func(context.Context, cm.Dialer, string) (net.Conn, error)) protocol {
	return protocol{
		name: name, bits: bits,
		listen: func(ctx context.Context, lc cm.ListenConfig, addr string) (listener, error) {
			ln, err := listen(ctx, lc, addr)
			if err != nil {
				return nil, err
			}
			return &streamListener{ln, confirms}, nil
		},
		dial: func(ctx context.Context, d cm.Dialer, addr string) (connection, error) {
			c, err := dial(ctx, d, addr)
			if err != nil {
				return nil, err
			}
			return &streamConn{c.(streamconntest.Conn), confirms}, nil
		},
	}
}

// streamListener is the listener of a stream protocol.
type streamListener struct {
	net.Listener
	confirms bool
}

// accept implements listener.
func (ln *streamListener) accept() (connection, error) {
	c, err := ln.Accept()
	if err != nil {
		return nil, err
	}
	return &streamConn{c.(streamconntest.Conn), ln.confirms}, nil
}

// streamConn is a connection of a stream protocol.
type streamConn struct {
	streamconntest.Conn
	confirms bool
}

// sendSeed implements connection.
func (c *streamConn) sendSeed(seed uint64) error {
	n, err := c.Write(binary.BigEndian.AppendUint64(nil, seed))
	if err != nil {
		return fmt.Errorf("Write() = %d, %w", n, err)
	}
	return nil
}

// receiveSeed implements connection.
func (c *streamConn) receiveSeed(patience time.Duration) (uint64, bool, error) {
	c.SetReadDeadline(time.Now().Add(patience))
	var seed [8]byte
	if n, err := io.ReadFull(c, seed[:]); err != nil {
		return 0, n > 0, fmt.Errorf("ReadFull() = %d, %w, want %d bytes", n, err, len(seed))
	}
	c.SetReadDeadline(time.Time{})
	return binary.BigEndian.Uint64(seed[:]), true, nil
}

// abort implements connection.
func (c *streamConn) abort() { streamconntest.Abort(c.Conn) }

// transfer implements connection.
func (c *streamConn) transfer(e *end) {
	se := &streamEnd{e, c}
	var both sync.WaitGroup
	both.Go(se.write)
	both.Go(se.read)
	both.Wait()
}

// streamEnd is one side of a connection of a stream protocol.
type streamEnd struct {
	*end
	conn *streamConn
}

// write sends the data of this side.
func (e *streamEnd) write() {
	rng := rand.New(rand.NewPCG(e.plan.seed, uint64(2+e.side)))
	data, left := e.plan.data(e.side), e.plan.size[e.side]
	e.count(0)
	for left > 0 {
		n := int(min(left, rng.Int64N(1<<rng.IntN(18))+1))
		var err error
		switch rng.IntN(8) {
		case 0:
			err = e.writeFrom(data, n, rng)
		case 1:
			err = e.writeBefore(data, n, rng)
		case 2:
			err = e.writeBuf(data, n)
		case 3:
			pause(rng)
			fallthrough
		default:
			buf := make([]byte, n)
			data.Read(buf)
			if e.plan.ending != aborts { // else the peer may not read so far
				e.s.spoil.bytes(buf)
			}
			var m int
			if m, err = e.conn.Write(buf); err == nil && m != n {
				err = fmt.Errorf("Write of %d bytes returned %d", n, m)
			}
			e.count(m)
		}
		if err != nil {
			e.failed("write", err)
			return
		}
		left -= int64(n)
		if left > 0 && e.plan.ending != aborts && e.s.spoil.short() {
			break
		}
	}
	if e.plan.ending == closes && e.plan.by == e.side {
		return // run closes the connection
	}
	if err := e.conn.CloseWrite(); err != nil && e.plan.ending != closes { // the peer may have closed before
		e.failed("CloseWrite", err)
	}
}

// writeFrom sends n bytes by ReadFrom.
func (e *streamEnd) writeFrom(data io.Reader, n int, rng *rand.Rand) error {
	source := &source{io.LimitReader(data, int64(n)), rng}
	m, err := e.conn.ReadFrom(source)
	e.count(int(m))
	if err == nil && int(m) != n {
		return fmt.Errorf("ReadFrom of %d bytes returned %d", n, m)
	}
	return err
}

// source reads a random number of bytes at a time.
type source struct {
	io.Reader
	rng *rand.Rand
}

func (s *source) Read(p []byte) (int, error) {
	return s.Reader.Read(p[:1+s.rng.IntN(len(p))])
}

// writeBefore sends n bytes with deadlines that may expire in the middle. It continues after the bytes that
// the Write has counted.
func (e *streamEnd) writeBefore(data io.Reader, n int, rng *rand.Rand) error {
	buf := make([]byte, n)
	io.ReadFull(data, buf)
	for len(buf) > 0 {
		e.conn.SetWriteDeadline(time.Now().Add(time.Duration(rng.IntN(3000)) * time.Microsecond))
		m, err := e.conn.Write(buf)
		e.count(m)
		buf = buf[m:]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err != nil {
			e.s.stats.expired.Add(1)
			time.Sleep(time.Millisecond)
		}
	}
	return e.conn.SetWriteDeadline(time.Time{})
}

// writeBuf sends n bytes without a copy, if the connection can do that.
func (e *streamEnd) writeBuf(data io.Reader, n int) error {
	c, ok := e.conn.Conn.(interface {
		Pool() *pool.Pool
		WriteBuf(*pool.Buf) error
	})
	if !ok {
		return e.writeFrom(data, n, rand.New(rand.NewPCG(1, 1)))
	}
	for n > 0 {
		m := min(n, 32<<10)
		b, err := c.Pool().Get(e.s.failed, m)
		if err != nil {
			return err
		}
		io.ReadFull(data, b.Bytes())
		if err := c.WriteBuf(b); err != nil {
			return err
		}
		e.count(m)
		n -= m
	}
	return nil
}

// read receives the data of the peer and compares them.
func (e *streamEnd) read() {
	if e.plan.ending == closes && e.plan.by == e.side {
		return
	}
	rng := rand.New(rand.NewPCG(e.plan.seed, uint64(4+e.side)))
	c := &checker{e: e, want: e.plan.data(1 - e.side), left: e.plan.size[1-e.side]}
	buf := make([]byte, 64<<10)
	for {
		var n int
		var err error
		switch rng.IntN(12) {
		case 0:
			pause(rng)
			continue
		case 1:
			n, err = e.peek(c)
		case 2:
			_, err = e.conn.WriteTo(&taker{c, int(rng.Int64N(1 << 18))})
			if errors.Is(err, errEnough) {
				continue
			}
			if err == nil {
				err = io.EOF
			}
		case 3:
			e.conn.SetReadDeadline(time.Now().Add(time.Duration(rng.IntN(3000)) * time.Microsecond))
			n, err = e.conn.Read(buf)
			c.Write(buf[:n])
			e.conn.SetReadDeadline(time.Time{})
			if errors.Is(err, os.ErrDeadlineExceeded) {
				e.s.stats.expired.Add(1)
				continue
			}
		default:
			n, err = e.conn.Read(buf[:1+rng.IntN(1<<rng.IntN(17))])
			c.Write(buf[:n])
		}
		switch {
		case err == io.EOF && c.left > 0:
			e.fault("the stream ended with %d bytes missing", c.left)
			return
		case err == io.EOF:
			return
		case err != nil:
			e.failed("read", err)
			return
		case n == 0 && rng.IntN(12) > 2:
			continue
		}
	}
}

// peek compares received bytes where they lie, and consumes them.
func (e *streamEnd) peek(c *checker) (int, error) {
	view, err := e.conn.Peek()
	if err != nil {
		return 0, err
	}
	view = view[:min(len(view), 1000)]
	c.Write(view)
	return e.conn.Discard(len(view))
}

// failed processes an error. It is a fault unless the connection may fail.
func (e *streamEnd) failed(call string, err error) {
	op := new(net.OpError)
	switch {
	case !errors.As(err, &op) && !errors.Is(err, net.ErrClosed): // as Pool.Get returns
		e.fault("%s: %w, which is no *net.OpError", call, err)
	case e.lostTheEnd(err):
		e.s.stats.lost.Add(1)
	case !e.mayFail():
		e.fault("%s: %w", call, err)
	}
}

// lostTheEnd reports whether siw has lost the last message of a peer that has closed the connection
// (docs/reference/driver-faults.md). A stream confirms its end, and rsocket cannot.
func (e *streamEnd) lostTheEnd(err error) bool {
	return vmtest.Driver() == "siw" && !e.conn.confirms && (e.plan.ending == orderly || e.plan.by != e.side) && errors.Is(err, syscall.ECONNRESET)
}

// checker compares the received bytes.
type checker struct {
	e    *streamEnd
	want *rand.ChaCha8
	left int64
	buf  []byte
}

func (c *checker) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		c.e.fault("%d bytes more than were sent", int64(len(p))-c.left)
		return 0, errEnough
	}
	c.buf = append(c.buf[:0], p...)
	c.want.Read(c.buf)
	if !bytes.Equal(p, c.buf) {
		c.e.fault("of %d bytes, with %d more to come, some differ from those that were sent", len(p), c.left-int64(len(p)))
		return 0, errEnough
	}
	c.left -= int64(len(p))
	c.e.count(len(p))
	return len(p), nil
}

// errEnough ends a WriteTo.
var errEnough = errors.New("enough")

// taker ends a WriteTo after some bytes.
type taker struct {
	c    *checker
	left int
}

func (t *taker) Write(p []byte) (int, error) {
	if t.left < len(p) {
		n, err := t.c.Write(p[:t.left])
		if err == nil {
			err = errEnough
		}
		t.left -= n
		return n, err
	}
	t.left -= len(p)
	return t.c.Write(p)
}

// pause lets the buffers fill.
func pause(rng *rand.Rand) {
	time.Sleep(time.Duration(rng.IntN(1<<rng.IntN(15))) * time.Microsecond)
}
