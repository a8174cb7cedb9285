// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"unsafe"

	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
)

// cq is a completion queue. It is a ring of entries that the adapter fills. A phase bit in each entry shows whether the
// adapter has written it. The adapter inverts the bit on every pass around the ring. The process passes the consumer
// index to the adapter when the CQ is armed, and otherwise after each poll. A small CQ is made twice as large as
// requested. Then the index is passed only after half of the entries.
type cq struct {
	lock     spin.Lock // guards the fields up to region.
	deferred bool
	paused   bool           // No doorbells are rung.
	closed   bool           // Polls return net.ErrClosed.
	phase    uint32         // of the entries that the adapter has written
	head     uint32         // the oldest entry
	depth    uint32         // entries
	half     uint32         // half of depth, rounded down.
	polled   uint32         // entries since the last doorbell
	ring     unsafe.Pointer // first entry
	epoch    uint64         // bellEpoch in every second pass around the ring
	qp       *qp            // whose completion was the last, or nil.
	added    []provider.WC  // of the old ring, after a resize. Polls return these first.
	counts   provider.CQCounts
	bell     ringer
	toggle   togglePage
	rearm    uint64      // bellArmAll or bellArmSolicited of an Arm during a change of the size, or 0
	region   *mem.Region // of the ring. nil after Close

	ctx     *Context
	handle  uint32
	num     uint32
	wake    func() // wakes the waiters, or nil
	leak    *leak.Entry
	skipped atomic.Uint64 // entries that made no sense
	entries atomic.Int64  // completions that fit

	flushing flushList
	resize   resize
	mu       sync.Mutex // of commands
}

var _ provider.CQ = (*cq)(nil)

func (c *cq) Handle() uint32 { return c.handle }

func (c *cq) Entries() int { return int(c.entries.Load()) }

// Poll takes up to len(wcs) completions out of the queue. An entry that makes no sense is skipped, and the QP that it
// names moves to the error state.
func (c *cq) Poll(wcs []provider.WC) (int, error) {
	c.lock.Lock()
	n := c.take(wcs)
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
	return unsafe.Add(c.ring, uintptr(i)<<cqeShift)
}

// flags loads the word of an entry that has the phase bit. Later loads from the entry are at least as new.
func flags(e unsafe.Pointer) uint32 {
	return endian.Little32(atomic.LoadUint32((*uint32)(unsafe.Add(e, cqeFlags))))
}

// advance moves to the next entry. A deferred doorbell is rung after half of the entries. The caller holds the lock.
func (c *cq) advance() {
	c.head++
	c.polled++
	if c.head == c.depth || c.deferred && c.polled >= c.half {
		c.turn()
	}
}

// turn begins at the end of the ring again, and rings a deferred doorbell after half of the entries.
//
//go:noinline
func (c *cq) turn() {
	if c.head == c.depth {
		c.head = 0
		c.phase ^= flagPhase
		c.epoch ^= bellEpoch
	}
	if c.deferred && c.polled >= c.half {
		c.ringPolled()
	}
}

// ringPolled passes the consumer index to the adapter. The caller holds the lock.
func (c *cq) ringPolled() {
	c.polled = 0
	if !c.paused {
		c.bell.ring(bell(bellCQ, c.num) | c.epoch | uint64(c.head))
	}
}

// Arm requests one event on the completion channel.
func (c *cq) Arm(solicitedOnly bool) error {
	kind := uint64(bellArmAll)
	if solicitedOnly {
		kind = bellArmSolicited
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.paused || c.ctx.File.Closed() {
		return net.ErrClosed
	}
	if c.resize.region != nil && c.rearm != bellArmAll {
		c.rearm = kind
	}
	c.ringArm(kind)
	return nil
}

// ringArm arms the CQ at the adapter. The caller holds the lock.
func (c *cq) ringArm(kind uint64) {
	c.bell.ring(bell(kind, c.num) | c.toggle.bits() | c.epoch | uint64(c.head))
}

// Close destroys the CQ. While the command runs, no doorbell is rung, because the kernel may reuse the number.
func (c *cq) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.region == nil {
		return nil
	}
	c.pause(true)
	if err := c.ctx.File.Destroyed(func() error { return c.ctx.File.DestroyCQ(c.handle) }); err != nil {
		c.pause(false)
		return err
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.forget()
	c.closed, c.added = true, nil
	c.ring, c.depth, c.head, c.phase = unsafe.Pointer(&unwritten), 1, 0, flagPhase
	c.leak.Done()
	return c.free()
}

// pause sets whether doorbells are rung.
func (c *cq) pause(v bool) {
	c.lock.Lock()
	c.paused = v
	c.lock.Unlock()
}

// free frees the memory, which the adapter does not use.
func (c *cq) free() error {
	err := errors.Join(c.toggle.close(), c.resize.free())
	if c.region != nil {
		err = errors.Join(err, c.region.Free())
		c.region = nil
	}
	return err
}

// forget resets the QP of the last completion.
func (c *cq) forget() { c.qp = nil }

// unwritten is the ring of a closed CQ.
var unwritten [cqeSize / 8]uint64
