// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"unsafe"

	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/provider/internal/dbrec"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
)

// cq is a completion queue. It is a ring of entries that the adapter fills. An owner bit in the first
// word of each entry shows whether the adapter has written it. The adapter inverts the bit on every
// pass around the ring. It gets the consumer index only when the CQ is armed.
type cq struct {
	lock   spin.Lock         // guards the fields up to region.
	fast   uint8             // kind of the last completion
	log    uint8             // logarithm of the number of entries
	mask   uint32            // number of entries - 1
	ring   unsafe.Pointer    // first entry
	ci     uint32            // consumer index, never masked. Stored shared, for Arm.
	qp     *qp               // whose completion was the last, or nil
	added  []provider.WC     // added by the provider. Polls return these first.
	closed bool              // polls return net.ErrClosed
	counts provider.CQCounts // of the polled completions
	region *mem.Region       // of the ring. nil after Close

	ctx     *Context
	handle  uint32
	num     uint32
	entries int
	wake    func()        // wakes the waiters, or nil
	skipped atomic.Uint64 // entries that made no sense
	leak    *leak.Entry

	mu     sync.Mutex // of commands and of arming
	record *dbrec.Record
	bell   unsafe.Pointer // register
	unused uint32         // takes the store that releases a lock elsewhere
	arms   uint32         // doorbells
	events uint32         // read from the channel
}

var (
	_ provider.CQ           = (*cq)(nil)
	_ provider.EventCounter = (*cq)(nil)
)

func (c *cq) Handle() uint32 { return c.handle }

func (c *cq) Entries() int { return c.entries }

// Resize fails, because the driver has no such command.
func (c *cq) Resize(int) error { return unsupported("another size of a completion queue") }

// Poll takes up to len(wcs) completions out of the queue. An entry that makes no sense is skipped,
// and the QP that it names moves to the error state.
func (c *cq) Poll(wcs []provider.WC) (int, error) {
	c.lock.Lock()
	n := 0
	switch c.fast {
	case fastSend:
		n = c.requests(wcs)
	case fastRecv:
		n = c.receives(wcs)
	}
	if n < len(wcs) {
		n = c.take(wcs, n)
	}
	var err error
	if n == 0 {
		err = c.idle()
	}
	c.lock.Unlock()
	return n, err
}

// idle returns the reason why a poll has found nothing, nil if the queue is empty.
func (c *cq) idle() error {
	if c.closed || c.ctx.File.Closed() {
		return net.ErrClosed
	}
	return nil
}

// entry returns an entry.
func (c *cq) entry(i uint32) unsafe.Pointer {
	return unsafe.Add(c.ring, uintptr(i&c.mask)<<blockShift)
}

// header loads the first word of an entry. Later loads from the entry are at least as new.
func header(e unsafe.Pointer) uint32 { return endian.Big32(atomic.LoadUint32((*uint32)(e))) }

// written reports whether the adapter has written entry i, which has that first word. In the first
// pass around the ring it sets the owner bit, in the second it clears the bit, and so on.
func (c *cq) written(i, head uint32) bool { return head>>cqeOwner != i>>(c.log&31)&1 }

// Arm requests one event on the completion channel. A doorbell has the counts of doorbells and of read
// events, as in liberdma. Therefore the reader of the channel calls Event.
func (c *cq) Arm(solicitedOnly bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record == nil || c.ctx.File.Closed() {
		return net.ErrClosed
	}
	w := uint64(c.arms&0xff)<<armCount | uint64(c.num)<<armCQ | armNext | uint64(c.events&3)<<armEvents | uint64(atomic.LoadUint32(&c.ci)&armIndex)
	if solicitedOnly {
		w |= armSolicited
	}
	c.arms++
	mmio.Doorbell((*uint64)(c.record.Mem()), endian.Little64(w), c.bell, &c.unused)
	return nil
}

// Event records that an event of the CQ has been read from its completion channel.
func (c *cq) Event() {
	c.mu.Lock()
	c.events++
	c.mu.Unlock()
}

// Close destroys the CQ.
func (c *cq) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record == nil {
		return nil
	}
	if err := c.ctx.File.Destroyed(func() error { return c.ctx.File.DestroyCQ(c.handle) }); err != nil {
		return err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.forget()
	c.closed, c.added = true, nil
	c.ring, c.mask, c.log, c.ci = unsafe.Pointer(&unwritten), 0, 0, 0
	c.leak.Done()
	return c.free()
}

// free frees the memory, which the adapter does not use.
func (c *cq) free() error {
	var errs []error
	if c.region != nil {
		errs = append(errs, c.region.Free())
		c.region = nil
	}
	if c.record != nil {
		errs = append(errs, c.ctx.records.Free(c.record))
		c.record = nil
	}
	return errors.Join(errs...)
}

// unwritten is the ring of a closed CQ.
var unwritten [blockSize / 8]uint64
