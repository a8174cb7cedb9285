// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/test/connectx/prm"
	"purerdma/verbs"
)

// The bounds of docs/adr/0052-lent-memory.md. A message waits behind at most bulkBytes bytes of its own side.
const (
	bulkChunk = 256<<10 + 4<<10           // bytes of a chunk. The last one may be longer than 256 KiB
	bulkBytes = 2*bulkChunk + 2*bulkChunk // bytes of the READs and of the WRITEs in flight
)

// bulkCount counts the requests of a device in the order in which it executes them. The fabric's lock guards it.
type bulkCount struct {
	bytes   uint64 // of READs and WRITEs
	longest int    // bytes of one of them
	// length is the number of bytes of the awaited message, 0 if there is none. executed gets the bytes before it.
	length   int
	executed chan uint64
}

// packet takes a request of the device.
func (b *bulkCount) packet(p *connectx.Packet) {
	switch {
	case (p.Opcode == prm.WQERead || p.Opcode == prm.WQEWrite) && p.Length > 0:
		b.bytes += uint64(p.Length)
		b.longest = max(b.longest, p.Length)
	case p.Opcode == prm.WQESend && p.Length == b.length && b.length > 0:
		b.length = 0
		b.executed <- b.bytes
	}
}

// bulkTest is a connection whose server moves much data in both directions, without an end.
type bulkTest struct {
	t      *testing.T
	c, s   *msg.Conn
	fabric *connectx.Fabric
	count  bulkCount
	over   atomic.Bool
}

// TestChunksBeforeMessage answers small calls during large transfers in both directions. The server's device executes
// few bytes between the post of an answer and the answer. It is stopped while the answer is posted, so that the
// transfers have posted all chunks that they may.
func TestChunksBeforeMessage(t *testing.T) {
	const size, calls = 16 << 20, 10
	devices := inprocess.New(inprocess.Config{Violation: inprocess.Fail(t)}, "mlx5_0", "mlx5_1")
	k := streamconntest.Kernel(t, devices)
	x := &bulkTest{t: t, fabric: devices.Fabric, count: bulkCount{executed: make(chan uint64, 1)}}
	x.c, x.s = apart(t, k, listen(t, k, msg.Options{}), msg.Options{})
	x.fabric.OnPacket(func(p *connectx.Packet) (connectx.Fate, time.Duration) {
		if p.From == "mlx5_0" {
			x.count.packet(p)
		}
		return connectx.Arrives, 0
	})
	ctx := streamconntest.Deadline(t)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		read, write := pattern(1, size), make([]byte, size)
		m, err := x.c.Do(ctx, &msg.Request{Read: msg.Memory{Bytes: read}, Write: msg.Memory{Bytes: write}})
		if err != nil {
			t.Errorf("Do() = %v", err)
			return
		}
		m.Free()
		if !bytes.Equal(write, pattern(2, size)) {
			t.Error("the memory for writing does not have the bytes of the server")
		}
	})
	request, err := x.s.Receive(ctx)
	if err != nil {
		t.Fatalf("Receive() = %v", err)
	}
	from, to := x.alloc(size), x.alloc(size)
	all.Go(func() { x.serveBulk(ctx, request, from, to) })
	defer x.over.Store(true)
	for n := range calls {
		all.Go(func() { check(t, ctx, x.c, uint64(n), pattern(n, 10+n)) })
		m, err := x.s.Receive(ctx)
		if err != nil {
			t.Fatalf("Receive() of call %d = %v", n, err)
		}
		if n == 0 { // it registers memory for messages, which a stopped device does not
			_ = m.Reply(ctx, m.Tag()+1, reversed(m.Bytes())) // check reports it
		} else {
			x.answerBehindChunks(ctx, m)
		}
		m.Free()
	}
	x.fabric.Lock()
	defer x.fabric.Unlock()
	if x.count.longest > bulkChunk {
		t.Errorf("bytes of a chunk = %d, want at most %d", x.count.longest, bulkChunk)
	}
}

// serveBulk writes from to the lent memory, and reads the lent memory to to, until the test is over. Then it answers
// the request. Each direction has more transfers than chunks in flight. So the last chunks of a transfer leave no gap.
func (x *bulkTest) serveBulk(ctx context.Context, request *msg.Message, from, to *verbs.MR) {
	defer request.Free()
	copy(from.Bytes(), pattern(2, from.Len()))
	const transfers = 16
	part := from.Len() / transfers
	var all sync.WaitGroup
	for off := 0; off < from.Len(); off += part {
		for _, transfer := range []func() error{
			func() error { return request.ReadLent(ctx, to.Slice(off, part), off) },
			func() error { return request.WriteLent(ctx, from.Slice(off, part), off) },
		} {
			all.Go(func() {
				for again := true; again; again = !x.over.Load() {
					if err := transfer(); err != nil {
						x.t.Errorf("transfer from %d on = %v", off, err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	if !bytes.Equal(to.Bytes(), pattern(1, to.Len())) {
		x.t.Error("the server has not read the bytes of the memory for reading")
	}
	if err := request.Reply(ctx, 0, nil); err != nil {
		x.t.Errorf("Reply() to the request with lent memory = %v", err)
	}
}

// alloc returns memory of the server until the end of the test.
func (x *bulkTest) alloc(size int) *verbs.MR {
	mr, err := x.s.PD().Alloc(size, verbs.LocalWrite)
	if err != nil {
		x.t.Fatalf("Alloc(%d) = %v", size, err)
	}
	x.t.Cleanup(func() {
		x.s.Close()
		if err := mr.Close(); err != nil {
			x.t.Errorf("MR.Close() = %v", err)
		}
	})
	return mr
}

// answerBehindChunks answers a call when neither direction may have another chunk in flight, or when more than
// bulkBytes bytes are.
func (x *bulkTest) answerBehindChunks(ctx context.Context, m *msg.Message) {
	x.t.Helper()
	answer := reversed(m.Bytes())
	x.fabric.Lock()
	n, full := x.s.Bulk()
	for !full && n <= bulkBytes {
		runtime.Gosched()
		n, full = x.s.Bulk()
	}
	if n > bulkBytes {
		x.t.Errorf("bytes in flight = %d, want at most %d", n, bulkBytes)
	}
	before := x.count.bytes
	x.count.length = msg.HeaderLen + len(answer)
	err := m.Reply(ctx, m.Tag()+1, answer)
	posted := x.s.BulkPosted()
	x.fabric.Unlock()
	if err != nil {
		x.t.Fatalf("Reply() = %v", err)
	}
	if ahead := posted - before; ahead > bulkBytes {
		x.t.Errorf("bytes in the send queue when a small answer is posted = %d, want at most %d", ahead, bulkBytes)
	}
	select {
	case executed := <-x.count.executed:
		if n := executed - before; n > bulkBytes {
			x.t.Errorf("bytes between the post of a small answer and the answer = %d, want at most %d", n, bulkBytes)
		}
	case <-ctx.Done():
		x.t.Fatal("the small answer was not sent")
	}
}

// TestTransferBehindCancelled cancels a transfer that waits for room for a long chunk. A transfer of a short chunk, for
// which there is room, waits behind it and continues. No packet arrives in the meantime.
func TestTransferBehindCancelled(t *testing.T) {
	const long, short = 512 << 10, 1 << 10
	n := newNetwork(t)
	c, s := apart(t, n.Kernel, listen(t, n.Kernel, msg.Options{}), msg.Options{})
	ctx := streamconntest.Deadline(t)
	loan, err := s.Lend(ctx, msg.Memory{Bytes: pattern(3, long)}, verbs.RemoteRead)
	if err != nil {
		t.Fatalf("Lend() = %v", err)
	}
	mr, err := c.PD().Alloc(long, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("Alloc() = %v", err)
	}
	defer mr.Close()
	until := func(what string, f func() bool) {
		t.Helper()
		for !f() {
			if ctx.Err() != nil {
				t.Fatalf("%s: %v", what, ctx.Err())
			}
			time.Sleep(time.Millisecond)
		}
	}
	n.stopped.Store("mlx5_1")
	posted := c.BulkPosted()
	read := func(ctx context.Context, off, n int) chan error {
		done := make(chan error, 1)
		go func() { done <- c.Read(ctx, mr.Slice(off, n), loan.Token().Slice(off, n)) }()
		return done
	}
	first := read(ctx, 0, long-short)
	until("the first transfer has posted its chunks", func() bool { return c.BulkPosted() == posted+long-short })
	canceled, cancel := context.WithCancel(ctx)
	second := read(canceled, 0, long)
	until("the second transfer waits", func() bool { return c.BulkWaiting() == 1 })
	third := read(ctx, long-short, short)
	until("the third transfer waits", func() bool { return c.BulkWaiting() == 2 })
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("Read() of the cancelled transfer = %v, want %v", err, context.Canceled)
	}
	until("the third transfer has posted its chunk", func() bool { return c.BulkPosted() == posted+long })
	n.stopped.Store("")
	for i, done := range []chan error{first, third} {
		if err := <-done; err != nil {
			t.Errorf("Read() of transfer %d = %v", 2*i+1, err)
		}
	}
	if !bytes.Equal(mr.Bytes(), pattern(3, long)) {
		t.Error("the memory does not have the bytes of the peer")
	}
}
