// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
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

	"purerdma/cm"
	"purerdma/cm/cmtest"
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

// TestReadFromMemory checks that ReadFrom holds memory only until it returns. While it waits for its source,
// it has memory for one frame.
func TestReadFromMemory(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		c, s := pair(t, k, ends{})
		unused := c.Pool().Stats().InUse
		for name, r := range map[string]io.Reader{
			"no bytes":  strings.NewReader(""),
			"an error":  iotest.ErrReader(syscall.EIO),
			"some data": strings.NewReader("data"),
		} {
			n, err := c.ReadFrom(&memoryReader{r, t, c, unused})
			if err != nil && err != syscall.EIO {
				t.Errorf("ReadFrom() of %s = %d, %v, want no error or %v", name, n, err, syscall.EIO)
			}
			if _, err := s.Discard(int(n)); err != nil {
				t.Errorf("Discard(%d) = %v", n, err)
			}
			if n == 0 && c.Pool().Stats().InUse != unused {
				t.Fatalf("InUse = %d after ReadFrom of %s, want %d", c.Pool().Stats().InUse, name, unused)
			}
			for end := time.Now().Add(streamconntest.Limit); c.Pool().Stats().InUse != unused; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("InUse = %d after ReadFrom of %s, want %d", c.Pool().Stats().InUse, name, unused)
				}
			}
		}
	})
}

// memoryReader checks the memory of a connection in each Read.
type memoryReader struct {
	io.Reader
	t      *testing.T
	c      *stream.Conn
	unused int
}

func (r *memoryReader) Read(b []byte) (int, error) {
	const frame = 16 << 10
	if got := r.c.Pool().Stats().InUse; got != r.unused+frame {
		r.t.Errorf("InUse = %d during ReadFrom, want %d and a frame of %d", got, r.unused, frame)
	}
	return r.Reader.Read(b)
}

// fill writes to a new connection, and returns when it waits for memory of the Shared. The channel gets the
// result of the write.
func fill(t *testing.T, w *stream.Conn, write func() error) <-chan error {
	t.Helper()
	written := make(chan error, 1)
	go func() { written <- write() }()
	for end := time.Now().Add(streamconntest.Limit); w.Stats().MemoryStalls == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("Stats().MemoryStalls = 0 on a connection that writes more than the memory, want more")
		}
	}
	return written
}

// writeZeros returns a function that writes size bytes.
func writeZeros(w *stream.Conn, size int) func() error {
	return func() error {
		_, err := w.Write(make([]byte, size))
		return err
	}
}

// hoardShared returns options with a Shared that has memory for 16 blocks.
func hoardShared(t *testing.T) stream.Options {
	t.Helper()
	s := stream.NewShared(stream.SharedConfig{Slot: 1024, Depth: 96, SendBytes: 256 << 10})
	t.Cleanup(func() { s.Close() })
	return stream.Options{Shared: s, SendBuffer: 64 << 20}
}

// hoardPairs returns a function that makes connections with hoardShared. Their peers take few frames.
func hoardPairs(t *testing.T, k *cmtest.Kernel) func() (w, peer *stream.Conn) {
	t.Helper()
	ln := listen(t, k, ends{listen: hoardShared(t)})
	return func() (w, peer *stream.Conn) {
		peer = dial(t, k, stream.Options{Window: 3}, ln)
		return accept(t, ln), peer
	}
}

// fairMemory transfers data on connections of a Shared while the peers of other connections take no data.
// Those take theirs afterwards.
func fairMemory(t *testing.T, pair func() (w, peer *stream.Conn)) {
	t.Helper()
	const hoards, hoarded, size = 6, 1 << 20, 256 << 10
	before, beforePeer := pair()
	var peers [hoards]*stream.Conn
	var written [hoards]<-chan error
	for i := range hoards {
		var w *stream.Conn
		w, peers[i] = pair()
		written[i] = fill(t, w, writeZeros(w, hoarded))
	}
	after, afterPeer := pair()
	streamconntest.Transfer(t, before, beforePeer, size)
	streamconntest.Transfer(t, after, afterPeer, size)
	var all sync.WaitGroup
	for i, peer := range peers {
		all.Go(func() {
			peer.SetReadDeadline(time.Now().Add(streamconntest.Limit))
			if n, err := io.CopyN(io.Discard, streamconntest.OnlyReader(peer), hoarded); err != nil {
				t.Errorf("CopyN() = %d, %v, want %d bytes", n, err, hoarded)
				return
			}
			if err := <-written[i]; err != nil {
				t.Errorf("Write() = %v", err)
			}
		})
	}
	all.Wait()
}

// TestFairMemory checks that connections whose peers take no data leave memory to the others.
func TestFairMemory(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) { fairMemory(t, hoardPairs(t, k)) })
}

// TestFairWriteBuf has a connection whose peer takes no data and whose program calls WriteBuf. Another connection
// still gets memory.
func TestFairWriteBuf(t *testing.T) {
	pair := hoardPairs(t, streamconntest.RXE(t))
	w, _ := pair()
	other, peer := pair()
	written := fill(t, w, func() error {
		for {
			buf, err := w.Pool().Get(t.Context(), 10_000)
			if err == nil {
				err = w.WriteBuf(buf)
			}
			if err != nil {
				return err
			}
		}
	})
	streamconntest.Transfer(t, other, peer, 256<<10)
	streamconntest.Abort(w)
	if err := <-written; !errors.Is(err, net.ErrClosed) {
		t.Errorf("WriteBuf() = %v, want %v", err, net.ErrClosed)
	}
}

// TestMemoryWait checks that a deadline and Close end a wait for memory, and that other connections get the
// memory of the closed connection.
func TestMemoryWait(t *testing.T) {
	pair := hoardPairs(t, streamconntest.RXE(t))
	closed := make(chan error)
	w, _ := pair()
	written := fill(t, w, writeZeros(w, 4<<20))
	w.SetWriteDeadline(time.Unix(1, 0))
	if err := <-written; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write() = %v, want %v", err, os.ErrDeadlineExceeded)
	}
	w.SetWriteDeadline(time.Time{})
	other, peer := pair()
	waiting := fill(t, other, writeZeros(other, 1<<20))
	go func() { closed <- writeZeros(w, 4<<20)() }()
	streamconntest.Abort(w)
	if err := <-closed; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write() = %v, want %v", err, net.ErrClosed)
	}
	peer.SetReadDeadline(time.Now().Add(streamconntest.Limit))
	if n, err := io.CopyN(io.Discard, streamconntest.OnlyReader(peer), 1<<20); err != nil {
		t.Errorf("CopyN() = %d, %v, want %d bytes", n, err, 1<<20)
	}
	if err := <-waiting; err != nil {
		t.Errorf("Write() = %v", err)
	}
}
