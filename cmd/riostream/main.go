// SPDX-License-Identifier: Apache-2.0

// Riostream measures the latency and the bandwidth of direct writes to mapped memory of rsockets. It
// has the flags, output and protocol of rdma-core's riostream, so that either side may be the C
// program.
//
// The receiving side polls the last byte of its memory, and so occupies a processor.
package main

import (
	"errors"
	"runtime"
	"sync/atomic"

	"purerdma/cmd/internal/streamtest"
	"purerdma/cmd/internal/tool"
	"purerdma/rsocket"
)

var program = streamtest.Kind{Name: "riostream", TestOptions: "abnv", Maps: 1, Run: transfer}

func main() { tool.Main(program.Main) }

// transferrer runs the transfers of a test.
type transferrer struct {
	*streamtest.Session
	conn   *rsocket.Conn
	buf    []byte // of the mapping, and also the bytes to send.
	marker uint8  // last byte of the next transfer.
	ended  atomic.Bool
}

// unset is the last byte of the memory before the first transfer.
const unset = 0xff

var errEnded = errors.New("the connection has ended")

// transfer runs the transfers of a test.
func transfer(s *streamtest.Session, t streamtest.Test) error {
	conn := s.Conn.(*rsocket.Conn)
	m, err := conn.Map(t.Size, 0)
	if err != nil {
		return err
	}
	defer m.Close()
	x := &transferrer{Session: s, conn: conn, buf: m.Bytes()}
	x.buf[t.Size-1] = unset
	if err := s.Sync(false); err != nil {
		return err
	}
	go x.watch()
	for range t.Iterations {
		steps := []func(int) error{x.send, x.receive}
		if !s.Client {
			steps = []func(int) error{x.receive, x.send}
		}
		for _, step := range steps {
			if err := step(t.Count); err != nil {
				return err
			}
		}
	}
	return nil
}

// watch waits for the next byte of the stream, or for the end of the connection, which no write to
// the memory shows.
func (x *transferrer) watch() {
	if _, err := x.conn.Peek(); err != nil {
		x.ended.Store(true)
	}
}

// send writes count times to the memory of the other side. The last transfer has the marker.
func (x *transferrer) send(count int) error {
	for i := range count {
		if i == count-1 {
			x.buf[len(x.buf)-1] = x.marker
			if x.Verify {
				x.Data.Fill(x.buf[:len(x.buf)-1])
			}
		}
		if _, err := x.conn.WriteAt(x.buf, 0); err != nil {
			return err
		}
	}
	x.marker++
	return nil
}

// receive waits for the marker.
func (x *transferrer) receive(int) error {
	for x.buf[len(x.buf)-1] != x.marker {
		if x.ended.Load() {
			return errEnded
		}
		runtime.Gosched()
	}
	x.marker++
	if x.Verify {
		return x.Data.Verify(x.buf[:len(x.buf)-1])
	}
	return nil
}
