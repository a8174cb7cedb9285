// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/pool"
	"purerdma/stream"
)

// takeAll takes all free memory of a pool.
func takeAll(t *testing.T, p *pool.Pool) (bufs []*pool.Buf) {
	t.Helper()
	for size := 64 << 10; size > 0; {
		b, err := p.TryGet(size)
		switch {
		case err == nil:
			bufs = append(bufs, b)
		case errors.Is(err, pool.ErrExhausted):
			size /= 2
		default:
			t.Fatalf("TryGet(%d) = %v", size, err)
		}
	}
	return bufs
}

// TestNoMemory connects while other connections use all memory of a Shared. The listener ends the new
// connection, and accepts another one when there is memory.
func TestNoMemory(t *testing.T) {
	k := streamconntest.RXE(t)
	s := stream.NewShared(stream.SharedConfig{Slot: 1024, Depth: 64, SendBytes: 1 << 20})
	defer s.Close()
	lc := stream.ListenConfig{Options: stream.Options{Shared: s}, CM: cm.ListenConfig{Host: k.Host(), MaxPending: 1}}
	ln, err := lc.Listen(t.Context(), "tcp", server)
	if err != nil {
		t.Fatalf("Listen() = %v", err)
	}
	defer ln.Close()
	first := dial(t, k, stream.Options{}, ln)
	defer streamconntest.Abort(first)
	accepted := accept(t, ln)
	defer streamconntest.Abort(accepted)

	held := takeAll(t, accepted.Pool())
	late := dial(t, k, stream.Options{}, ln)
	defer streamconntest.Abort(late)
	late.SetDeadline(time.Now().Add(streamconntest.Limit))
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Read() of a connection without memory = %v, want %v", err, syscall.ECONNRESET)
	}
	for _, b := range held {
		b.Free()
	}
	for {
		conn, err := (&stream.Dialer{CM: cm.Dialer{Host: k.Host()}}).DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err == nil {
			streamconntest.Abort(conn.(*stream.Conn))
			streamconntest.Abort(accept(t, ln))
			return
		}
		if _, ok := errors.AsType[*cm.RejectError](err); !ok { // the failed connection may still be pending
			t.Fatalf("DialContext() with free memory = %v", err)
		}
	}
}
