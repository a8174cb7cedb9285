// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/internal/mmio"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
	"purerdma/uverbs"
)

// Layout of the doorbell records of a CQ, and of the register and the words that arm it. The words
// have the sequence number, the command and the consumer index. In the register, the CQ's number
// follows.
const (
	cqConsumer = 0 // which record
	cqArm      = 1

	uarArm = 0x20 // offset of the register in a UAR

	armAny       = 0 << 24
	armSolicited = 1 << 24
	armSeq       = 28 // 2 bits
)

// Arm requests one event on the completion channel. Each event requires a new sequence number, or
// the device would take the next request for the old one. Therefore the reader of the channel calls
// Event.
func (c *CQ) Arm(solicitedOnly bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.db == nil || c.ctx.file.Closed() {
		return net.ErrClosed
	}
	w := c.events&3<<armSeq | armAny | atomic.LoadUint32(&c.ci)&0xffffff
	if solicitedOnly {
		w |= armSolicited
	}
	if c.recorded != nil {
		c.recorded.arm(c.num, w)
	}
	mmio.Arm(&c.db.rec[cqArm], endian.Big32(w), unsafe.Add(c.ctx.uars.cq, uarArm), endian.Big64(uint64(w)<<32|uint64(c.num)))
	return nil
}

// Event records that an event of the CQ has been read from its completion channel
// (provider.EventCounter).
func (c *CQ) Event() {
	c.mu.Lock()
	c.events++
	c.mu.Unlock()
}

// Resize changes the capacity to at least the given number of entries. Concurrent polls wait.
func (c *CQ) Resize(entries int) error {
	log, err := cqLog(entries)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acquire()
	defer c.release()
	switch {
	case c.region == nil || c.ctx.file.Closed():
		return net.ErrClosed
	case c.err != nil:
		return c.err
	case log == c.log:
		return nil
	}
	r, err := newCQRing(log, c.shift)
	if err != nil {
		return err
	}
	cmd := abi.Mlx5ResizeCQ{BufAddr: abi.NewPointer(unsafe.SliceData(r.Bytes())), CQESize: 1 << c.shift}
	got, err := c.ctx.file.ResizeCQ(c.handle, 1<<log-1, uverbs.Driver{In: abi.Bytes(&cmd)})
	if err != nil {
		return errors.Join(err, r.Free())
	}
	if int64(got) != 1<<log-1 {
		c.stop(unsupported("the kernel resized a CQ to %d entries, not to %d", got, 1<<log-1))
		return errors.Join(c.err, r.Free())
	}
	if err := c.moveTo(r, log); err != nil {
		// The device writes to the new ring: that stays mapped, as the one to be freed.
		old := c.region
		c.region = r
		c.stop(err)
		return errors.Join(err, old.Free())
	}
	return nil
}

// resizeEndWait bounds how long Resize waits for the entry that ends the old ring, which
// is there when the command returns on all devices that are known.
const resizeEndWait = 100 * time.Millisecond

// awaitEntry waits until entry i belongs to the program, and returns false if it does not
// within resizeEndWait.
func (c *CQ) awaitEntry(i uint32) bool {
	for start := time.Now(); !c.ours(i, lastWord(c.entry(i))); time.Sleep(50 * time.Microsecond) {
		if time.Since(start) > resizeEndWait {
			return false
		}
	}
	return true
}

// moveTo makes r the ring. It moves the unpolled entries there, by one entry further on, because
// the last entry of the old ring ends it. An entry of that kind with others behind it is invalid.
// If the last entry does not come, the old ring is kept until Close, because the device may write
// the entry later.
func (c *CQ) moveTo(r *mem.Region, log uint8) error {
	var kept []uint32
	i := c.ci
	for i-c.ci <= c.mask {
		e := c.entry(i)
		last := lastWord(e)
		if !c.ours(i, last) {
			if c.awaitEntry(i) {
				continue
			}
			c.left = append(c.left, c.region)
			c.goOnIn(r, log, kept, i+1)
			return nil
		}
		if last>>4&15 == cqeResize && !c.written(i+1) {
			old := c.region
			c.goOnIn(r, log, kept, i+1)
			return old.Free()
		}
		switch c.unpack(i, e, last) {
		case again:
			continue
		case failed:
			return c.err
		case skipped:
			i += c.skip(i, e)
			continue
		}
		if len(kept) >= 1<<log-1 {
			return c.impossible(e, "a resized queue has more completions than fit")
		}
		kept = append(kept, i)
		i++
	}
	return c.impossible(c.entry(i), "the end of a resized queue is missing")
}

// written reports whether the device has written entry i and it was not polled.
func (c *CQ) written(i uint32) bool { return i-c.ci <= c.mask && c.ours(i, lastWord(c.entry(i))) }

// goOnIn makes r the ring, and moves the entries kept of the old one there. The device
// goes on with entry end.
func (c *CQ) goOnIn(r *mem.Region, log uint8, kept []uint32, end uint32) {
	to := CQ{}
	to.use(r, log, c.shift)
	first := c.place(&to, kept, end)
	c.use(r, log, c.shift)
	c.record()
	c.moveOn(first)
}

// moveOn makes entry ci the oldest one.
func (c *CQ) moveOn(ci uint32) {
	spin.StoreRelease(&c.ci, ci)
	c.publish()
}

// place copies the entries kept, which are in order, to the ring of to, before entry end. It
// returns the number of the first.
func (c *CQ) place(to *CQ, kept []uint32, end uint32) uint32 {
	for _, i := range slices.Backward(kept) {
		if end--; to != c || end != i {
			to.copyEntry(end, c.entry(i))
		}
	}
	return end
}

// purgeQP removes the completions of a QP that is reset or destroyed from the queue, and drops the
// reference to the QP. The receives of its SRQ, if it has one, return to the SRQ. Later polls do
// not find the QP.
func (c *CQ) purgeQP(q *QP) {
	if c == nil {
		return
	}
	c.acquire()
	defer c.release()
	c.purge(q.index, q.srq)
	c.failedMu.Lock()
	c.failed = slices.DeleteFunc(c.failed, func(f failedQP) bool { return f.q == q })
	c.failedMu.Unlock()
	c.added = slices.DeleteFunc(c.added, func(a addition) bool {
		if a.QPNum != q.num {
			return false
		}
		if a.ofSRQ {
			q.srq.report(a.ID)
		}
		return true
	})
}

// purge takes the completions that name a user index out of the queue. The caller holds
// the lock.
func (c *CQ) purge(index uint32, srq *SRQ) {
	c.sift(func(_ uint32, e unsafe.Pointer) bool {
		if load32(e, cqeUIdx)&0xffffff != index {
			return true
		}
		if srq != nil {
			srq.drop(e)
		}
		return false
	})
	if c.index == index {
		c.forget()
	}
}

// sift filters the entries of the queue. It calls keep with the number and the place of each,
// oldest first, and removes the entries for which keep returns false. The caller holds the lock.
func (c *CQ) sift(keep func(i uint32, e unsafe.Pointer) bool) {
	var kept []uint32
	end := c.ci
	for end-c.ci <= c.mask {
		e := c.entry(end)
		last := lastWord(e)
		if !c.ours(end, last) {
			break
		}
		switch c.unpack(end, e, last) {
		case again:
			continue
		case failed:
			return
		case skipped:
			end += c.skip(end, e)
			continue
		}
		if keep(end, e) {
			kept = append(kept, end)
		}
		end++
	}
	if uint32(len(kept)) != end-c.ci {
		c.moveOn(c.place(c, kept, end))
	}
}

// Close destroys the CQ.
func (c *CQ) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.db == nil {
		return nil
	}
	if err := c.ctx.file.Destroyed(func() error { return c.ctx.file.DestroyCQ(c.handle) }); err != nil {
		return err
	}
	c.acquire()
	defer c.release()
	c.stop(net.ErrClosed)
	c.bell = new(uint32)
	c.leak.Done()
	return c.free()
}
