// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
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

// CQ is a completion queue. It is a ring of completion queue entries (CQE) that the device fills.
// An owner bit in the last byte of each entry selects the device or the software as its owner. The
// device inverts the bit on every pass around the ring. The consumer index, in a doorbell record,
// announces the consumed entries to the device.
//
// Besides provider.CQ it has methods for features of mlx5 devices. Programs reach them by a type
// assertion of verbs.CQ.Provider().
type CQ struct {
	lock     spin.Lock // guards the fields up to entries, unless unlocked, and the copying of data to memory regions.
	unlocked bool      // one goroutine uses the CQ
	copying  bool      // a poll of an unlocked CQ holds the lock (lockToCopy)
	fast     uint8     // kind of the last completion
	shift    uint8
	log      uint8             // logarithm of the number of entries.
	mask     uint32            // number of entries - 1
	ring     unsafe.Pointer    // the last 64 bytes of the first entry
	ci       uint32            // consumer index, never masked. Stored shared, for Arm.
	index    uint32            // user index of qp or srq, noIndex for none
	qp       *QP               // whose completion was the last.
	srq      *SRQ              // of XRC, whose completion was the last
	bell     *uint32           // doorbell record of the consumer index
	err      error             // why nothing can be polled any more
	pending  atomic.Bool       // takePending is to take the completions.
	counts   provider.CQCounts // of the polled completions
	region   *mem.Region       // of ring. nil after Close
	left     []*mem.Region     // rings before Resize that the device may still write to
	entries  int               // that fit.
	ethernet bool              // the device's ports are Ethernet
	recorded *recordedCQ       // nil if the completions are not recorded
	added    []addition        // added by the provider. Polls return these first.
	given    *addition         // the newest addition that a poll has returned. For PollExtended

	ctx         *Context
	handle      uint32
	num         uint32
	compression CompressionFormat // 0: the device writes no compressed CQEs
	wake        func()            // wakes the CQ's waiters, or nil
	skipped     atomic.Uint64     // entries that made no sense
	leak        *leak.Entry

	failedMu sync.Mutex
	failed   []failedQP // guarded by failedMu

	mu     sync.Mutex // of commands and of arming
	db     *doorbell  // nil after Close
	events uint32     // read from the channel. It is the sequence number of arming
}

var _ provider.CQ = (*CQ)(nil)

// noIndex is no user index: these have 24 bits.
const noIndex = ^uint32(0)

// Handle is the kernel's handle of the CQ.
func (c *CQ) Handle() uint32 { return c.handle }

// Num is the device's number of the CQ.
func (c *CQ) Num() uint32 { return c.num }

// Entries returns how many completions fit.
func (c *CQ) Entries() int {
	c.acquire()
	defer c.release()
	return c.entries
}

// acquire takes the lock of the CQ, if it has one.
func (c *CQ) acquire() {
	if !c.unlocked {
		c.lock.Lock()
	}
}

// release releases the lock of the CQ, if acquire or lockToCopy has taken it.
func (c *CQ) release() {
	switch {
	case !c.unlocked:
		c.lock.Unlock()
	case c.copying:
		c.copying = false
		c.lock.Unlock()
	}
}

// Poll takes up to len(wcs) completions out of the queue. An entry that makes no sense is
// skipped (Skipped), and the QP that it names moves to the error state.
//
// With Driver.Strict such an entry is a *CQEError. Poll returns the completions before it
// first. From then on the CQ is good for nothing but Close.
func (c *CQ) Poll(wcs []provider.WC) (int, error) {
	c.acquire()
	n := 0
	if c.fast == fastSend {
		n = c.requests(wcs)
	} else if c.fast == fastRecv {
		n = c.receives(wcs)
	}
	if n < len(wcs) {
		n = c.take(wcs, n)
	}
	if n == 0 {
		err := c.idle()
		c.release()
		return 0, err
	}
	c.publish()
	c.release()
	return n, nil
}

// idle returns the reason why a poll has found nothing, nil if the queue is empty.
func (c *CQ) idle() error {
	if c.err == nil && c.ctx.file.Closed() {
		return net.ErrClosed
	}
	return c.err
}

// publish announces the consumed entries to the device.
func (c *CQ) publish() { spin.StoreRelease(c.bell, endian.Big32(c.ci&0xffffff)) }

// entry returns the last 64 bytes of an entry, which are those with the fields.
func (c *CQ) entry(i uint32) unsafe.Pointer {
	return unsafe.Add(c.ring, uintptr(i&c.mask)<<(c.shift&31))
}

// lastWord loads the last word of an entry, which holds the owner bit. Later loads from the entry
// are at least as new.
func lastWord(e unsafe.Pointer) uint32 {
	return endian.Big32(atomic.LoadUint32((*uint32)(unsafe.Add(e, cqeLast))))
}

// ours reports whether entry i, with that last word, belongs to the program.
func (c *CQ) ours(i, last uint32) bool {
	return last&0xf0 != cqeInvalid<<4 && (last^i>>(c.log&31))&1 == 0
}

// take decodes completions from wcs[n] on, and moves the consumer index on without
// telling the device. It returns how many of wcs are filled.
func (c *CQ) take(wcs []provider.WC, n int) int {
	if c.pending.Load() {
		return c.takePending(wcs, n)
	}
	for n < len(wcs) {
		e := c.entry(c.ci)
		last := lastWord(e)
		if !c.ours(c.ci, last) {
			break
		}
		out := c.other(c.ci, e, last, &wcs[n])
		if c.recorded != nil {
			c.recorded.completion(c, e, out, &wcs[n])
		}
		switch out {
		case took:
			spin.StoreRelease(&c.ci, c.ci+1)
			c.count(&wcs[n])
			switch n++; c.fast {
			case fastSend:
				n += c.requests(wcs[n:])
			case fastRecv:
				n += c.receives(wcs[n:])
			}
		case skipped:
			c.skipEntry(e)
			if c.pending.Load() {
				return c.takePending(wcs, n)
			}
		case failed:
			return n
		}
	}
	return n
}

// find looks up the queue of a user index.
func (c *CQ) find(index uint32) {
	c.fast = fastNone
	c.index, c.qp, c.srq = index, c.ctx.resources.qp(index), c.ctx.resources.srq(index)
	if c.qp == nil && c.srq == nil {
		c.index = noIndex
	}
}

// forget resets the queue of the last completion.
func (c *CQ) forget() { c.fast, c.index, c.qp, c.srq = fastNone, noIndex, nil, nil }

// copyEntry copies another entry to entry i, with the owner bit of the program.
func (c *CQ) copyEntry(i uint32, from unsafe.Pointer) {
	to, size := c.entry(i), 1<<c.shift
	copy(unsafe.Slice((*byte)(unsafe.Add(to, cqeSize-size)), size), unsafe.Slice((*byte)(unsafe.Add(from, cqeSize-size)), size))
	*(*uint8)(unsafe.Add(to, cqeOpOwn)) = load8(from, cqeOpOwn)&^1 | uint8(i>>(c.log&31)&1)
}
