// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/uverbs"
)

// For another size of a CQ the adapter gets a new ring from the kernel. The adapter marks the end of the old ring with an
// entry, and writes to the new ring from then on. The process takes the completions out of the old ring. Then a command
// ends the change for the kernel, and a doorbell ends it for the adapter.

// resizeWait bounds the wait for the end of the old ring. libbnxt_re waits as long.
const resizeWait = 2 * time.Second

// resize is a change of the size that has not ended. The locks of the CQ and of its commands guard it. Only a change
// that has failed outlasts Resize.
type resize struct {
	region *mem.Region // of the new ring, nil without a change
	shape  ringShape
}

func (r *resize) free() error {
	if r.region == nil {
		return nil
	}
	err := r.region.Free()
	r.region = nil
	return err
}

// Resize changes the size. The kernel returns EINVAL for devices that cannot.
func (c *cq) Resize(entries int) error {
	if err := c.ctx.checkEntries(entries); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.region == nil {
		return net.ErrClosed
	}
	if c.resize.region != nil {
		// The old ring may have ended after the wait.
		if err := c.awaitCutoff(); err != nil {
			return err
		}
	}
	shape := c.ctx.caps.shape(entries, true)
	if uint32(shape.depth) == c.depth {
		return nil
	}
	region, err := shape.alloc(c.ctx.pageSize)
	if err != nil {
		return err
	}
	c.startResize(resize{region, shape})
	req := abi.BnxtReResizeCQReq{CQVA: abi.NewSlicePointer(region.Bytes())}
	if _, err := c.ctx.File.ResizeCQ(c.handle, uint32(shape.request), uverbs.Driver{In: abi.Bytes(&req)}); err != nil {
		c.startResize(resize{})
		return errors.Join(err, region.Free())
	}
	return c.awaitCutoff()
}

// startResize sets the new ring before the adapter can end the old one.
func (c *cq) startResize(r resize) {
	c.lock.Lock()
	c.resize, c.rearm = r, 0
	c.lock.Unlock()
}

// awaitCutoff moves to the new ring when the old one has ended. The caller holds c.mu.
func (c *cq) awaitCutoff() error {
	for end := time.Now().Add(resizeWait); ; time.Sleep(time.Millisecond) {
		if c.drain() {
			return c.switchRing()
		}
		switch {
		case c.ctx.File.Closed():
			return net.ErrClosed
		case time.Now().After(end):
			return fmt.Errorf("bnxt_re: no end of the old ring of the completion queue: %w", syscall.EIO)
		}
	}
}

// drain moves the completions of the old ring to c.added, and reports whether the ring has ended.
func (c *cq) drain() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	var wcs [16]provider.WC
	for {
		n := c.takeRing(wcs[:], 0)
		for i := range wcs[:n] {
			c.countBack(&wcs[i])
		}
		c.added = append(c.added, wcs[:n]...)
		if n == 0 {
			f := flags(c.entry(c.head))
			return f&flagPhase == c.phase && f>>flagType&15 == typeCutoff
		}
	}
}

// switchRing moves to the new ring. The caller holds c.mu, and the old ring has ended.
func (c *cq) switchRing() error {
	// The command has no result. It makes the kernel release the old ring.
	if _, err := c.ctx.File.PollCQ(c.handle, make([]abi.UverbsWC, 1)); err != nil {
		return fmt.Errorf("bnxt_re: end change of the completion queue's size: %w", err)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	toggle := uint64(flags(c.entry(c.head))>>flagToggle&toggleMask) << bellToggle
	old := c.region
	// The adapter ignores a doorbell with a lower index and an unchanged epoch.
	if c.head > 0 {
		c.epoch ^= bellEpoch
	}
	c.head, c.phase = 0, flagPhase
	c.use(&c.resize.shape, c.resize.region)
	c.resize.region = nil
	c.forget()
	c.bell.ring(bell(bellCutoff, c.num) | toggle | c.epoch)
	if c.rearm != 0 {
		c.ringArm(c.rearm) // the adapter ignores an Arm after the end of the old ring
		c.rearm = 0
	}
	return old.Free()
}
