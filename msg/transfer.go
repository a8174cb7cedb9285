// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/internal/cdev"
	"purerdma/internal/fifo"
	"purerdma/verbs"
)

// A transfer of lent memory is a series of READs or WRITEs of chunks. Few bytes of a connection are in
// flight at a time. So a message waits behind few bytes, and the transfers of a connection share its bandwidth. Each
// chunk costs a doorbell, a completion and possibly a wake-up of the transferring goroutine. So chunks are long, and
// two of them keep the device busy.
const (
	chunkLen = 256 << 10
	// chunkRest is the most bytes by which the last chunk is longer than the others. siw fails for READs
	// of less than 33 bytes (docs/reference/driver-faults.md).
	chunkRest = 4 << 10
	// maxChunks bounds the chunks in flight in each direction, and maxBulk bounds their bytes.
	maxChunks = 8
	maxBulk   = 2 * (chunkLen + chunkRest)
)

// bulk has the chunks of transfers in one direction. Conn.mu guards it.
type bulk struct {
	most     int // chunks in flight. It does not change
	inFlight int
	bytes    int // of the chunks in flight
	waiting  fifo.Queue[*waiter]
}

// free reports whether a chunk of n bytes may be posted.
func (b *bulk) free(n int) bool { return b.inFlight < b.most && b.bytes+n <= maxBulk }

// take counts a chunk of n bytes as in flight.
func (b *bulk) take(n int) {
	b.inFlight++
	b.bytes += n
}

// put removes a chunk of n bytes, and lets waiting transfers post chunks.
func (b *bulk) put(n int) {
	b.inFlight--
	b.bytes -= n
	b.grant()
}

// grant lets waiting transfers post chunks, in their order. The caller holds the lock of the connection.
func (b *bulk) grant() {
	for b.waiting.Len() > 0 {
		n := (*b.waiting.Front()).units
		if !b.free(n) {
			return
		}
		b.take(n)
		b.waiting.Pop().finish()
	}
}

// Read copies lent memory of the peer to local memory by RDMA READ. local is registered on PD with the
// right LocalWrite, such as a pool.Buf of Pool. from has at least as many bytes. Read waits until the data
// is there. Other messages and transfers of the connection go on at the same time.
//
// If ctx ends first, Read returns its error when the device no longer uses local. If that takes more than a
// second, the connection fails. If the memory is no longer lent, the connection fails.
func (c *Conn) Read(ctx context.Context, local verbs.SGE, from Token) error {
	cdev.NeedContext(ctx)
	return c.transferError(opRead, c.transfer(ctx, &c.reads, local, from, nil))
}

// Write copies local memory to lent memory of the peer by RDMA WRITE. It is otherwise like Read. The peer has
// the data when a message that was sent after it has arrived.
func (c *Conn) Write(ctx context.Context, local verbs.SGE, to Token) error {
	cdev.NeedContext(ctx)
	return c.transferError(opWrite, c.transfer(ctx, &c.writes, local, to, nil))
}

// ReadLent copies bytes that the request lends for reading, from off on, to local memory: see Conn.Read. If
// the caller cancels the call, ReadLent fails with context.Canceled. It fails with an error that wraps
// syscall.EINVAL after the answer.
func (m *Message) ReadLent(ctx context.Context, local verbs.SGE, off int) error {
	cdev.NeedContext(ctx)
	return m.conn.transferError(opRead, m.transfer(ctx, &m.conn.reads, local, m.read, off))
}

// WriteLent copies local memory to the bytes that the request lends for writing, from off on: see Conn.Write. The
// caller has the bytes when it has the reply. WriteLent is otherwise like ReadLent.
func (m *Message) WriteLent(ctx context.Context, local verbs.SGE, off int) error {
	cdev.NeedContext(ctx)
	return m.conn.transferError(opWrite, m.transfer(ctx, &m.conn.writes, local, m.write, off))
}

func (c *Conn) transferError(op string, err error) error {
	if err == nil {
		return nil
	}
	return c.opError(op, err)
}

// transfer moves bytes of a request.
func (m *Message) transfer(ctx context.Context, b *bulk, local verbs.SGE, lent Token, off int) error {
	if off < 0 || uint64(off) > lent.Length || uint64(local.Length) > lent.Length-uint64(off) {
		return fmt.Errorf("%d bytes from %d on, %d are lent: %w", local.Length, off, lent.Length, verbs.ErrRemoteLength)
	}
	c := m.conn
	c.mu.Lock()
	m.transfers++
	m.Ref()
	c.unlock()
	err := c.transfer(ctx, b, local, lent.Slice(off, int(local.Length)), m)
	c.mu.Lock()
	m.transfers--
	c.unlock()
	m.Free()
	return err
}

// transfer moves the bytes of local. m is the request that lends the remote memory, or nil.
func (c *Conn) transfer(ctx context.Context, b *bulk, local verbs.SGE, remote Token, m *Message) error {
	if err := ended(ctx); err != nil {
		return err
	}
	start, right := c.conn.StartRead, verbs.RemoteRead
	if b == &c.writes {
		start, right = c.conn.StartWrite, verbs.RemoteWrite
	}
	switch {
	case remote.Access&right == 0:
		return fmt.Errorf("the right %v was not lent: %w", right, syscall.EACCES)
	case uint64(local.Length) > remote.Length:
		return verbs.ErrRemoteLength
	}
	remote = remote.Slice(0, int(local.Length)) // its length may be any number
	var chunks [maxChunks]chunk
	first, posted := 0, 0 // the oldest of the chunks in flight, and their number
	var failed error
	for failed == nil && local.Length > 0 || posted > 0 {
		for failed == nil && local.Length > 0 && posted < len(chunks) {
			n := local.Length
			if n > chunkLen+chunkRest {
				n = chunkLen
			}
			ok, err := c.takeChunk(ctx, b, int(n), m, posted == 0)
			if failed = err; !ok {
				break
			}
			op, err := start(ctx, verbs.SGE{Addr: local.Addr, Length: n, LKey: local.LKey}, remote.Slice(0, int(n)).RemoteMemory, nil)
			if failed = err; err != nil {
				c.putChunk(b, int(n))
				break
			}
			chunks[(first+posted)%len(chunks)] = chunk{op, int(n)}
			posted++
			local.Addr, local.Length, remote = local.Addr+uint64(n), local.Length-n, remote.Slice(int(n), int(remote.Length-uint64(n)))
		}
		if posted == 0 {
			break
		}
		err := c.awaitChunk(ctx, chunks[first].op)
		c.putChunk(b, chunks[first].n)
		first, posted = (first+1)%len(chunks), posted-1
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// chunk is a READ or WRITE of n bytes in flight.
type chunk struct {
	op cm.Op
	n  int
}

// takeChunk counts a chunk of n bytes as in flight. If there is no room for it, it waits or returns false.
func (c *Conn) takeChunk(ctx context.Context, b *bulk, n int, m *Message, wait bool) (bool, error) {
	_ = c.poller.Poll() // so that a cancellation is seen. An error shows in the next wait
	if err := ended(ctx); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.unlock()
	if err := c.transferable(m); err != nil {
		return false, err
	}
	switch {
	case b.waiting.Len() == 0 && b.free(n) && !c.mute:
		b.take(n)
		return true, nil
	case !wait:
		return false, nil
	}
	w := c.getWaiter()
	w.units = n
	b.waiting.Push(w)
	err := c.wait(ctx, w)
	if err != nil {
		b.waiting.Remove(slices.Index(b.waiting.All(), w))
		if !c.mute {
			b.grant() // to those behind it, which may be shorter
		}
	} else if err = w.err; err == nil {
		if err = c.transferable(m); err != nil { // while it waited
			b.put(n)
		}
	}
	c.putWaiter(w)
	return err == nil, err
}

// transferable returns the error of a transfer that cannot continue, and otherwise nil. The caller holds
// the lock.
func (c *Conn) transferable(m *Message) error {
	switch {
	case c.err != nil:
		return c.err
	case m == nil:
		return nil
	case m.kind != kindRequest:
		return errNotRequest
	case m.answered:
		return errAnswered
	case m.over:
		return context.Canceled
	}
	return nil
}

func (c *Conn) putChunk(b *bulk, n int) {
	c.mu.Lock()
	defer c.unlock()
	b.put(n)
}

// awaitChunk waits until the device no longer uses the memory of a chunk, and returns its error. If the chunk
// has not completed within a second after the end of ctx, awaitChunk breaks the connection and returns
// the error of ctx.
func (c *Conn) awaitChunk(ctx context.Context, op cm.Op) error {
	err := op.Wait(ctx)
	if !isPending(err) {
		return err
	}
	cause := err
	if err = awaitFor(op, closeGrace); !isPending(err) {
		return err
	}
	if ctx.Err() != nil {
		cause = cdev.ContextError(ctx)
	}
	for c.flush() != nil && isPending(awaitFor(op, closeGrace)) {
	}
	op.Abandon()
	return cause
}

// awaitFor waits for an operation, but at most for d.
func awaitFor(op interface{ Wait(context.Context) error }, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return op.Wait(ctx)
}

func isPending(err error) bool {
	_, ok := errors.AsType[*inflight.PendingError](err)
	return ok
}
