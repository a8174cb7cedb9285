// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/leak"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/uverbs"
)

// CreateCQ makes a completion queue.
func (c *Context) CreateCQ(cfg *provider.CQConfig) (provider.CQ, error) {
	if cfg.Vendor != nil {
		return nil, fmt.Errorf("bnxt_re: options of type %T: %w", cfg.Vendor, syscall.EINVAL)
	}
	if err := c.checkEntries(cfg.Entries); err != nil {
		return nil, err
	}
	if err := c.needDoorbells(); err != nil {
		return nil, err
	}
	q := &cq{ctx: c, wake: cfg.Wake, bell: c.ringer()}
	if err := q.create(cfg); err != nil {
		return nil, errors.Join(err, q.free())
	}
	q.leak = leak.Track("bnxt_re CQ", c.File.Info().Name)
	return q, nil
}

// checkEntries checks the size of a completion queue.
func (c *Context) checkEntries(n int) error {
	if n < 1 || n > int(c.caps.maxCQE) {
		return fmt.Errorf("bnxt_re: completion queue of %d entries, at most %d: %w", n, c.caps.maxCQE, syscall.EINVAL)
	}
	return nil
}

// ringShape is the size of the ring of a CQ.
type ringShape struct {
	request  int // the number that the kernel gets
	depth    int // entries of the ring
	deferred bool
}

// shape returns the size of a ring for n completions, which is at most caps.maxCQE. The kernel computes the same size.
// A CQ whose double size is the limit is deferred only after a resize, as in libbnxt_re.
func (c *caps) shape(n int, resized bool) ringShape {
	s := ringShape{request: n}
	if limit := int(c.maxCQE); 2*n < limit || resized && 2*n == limit {
		s.deferred = true
		s.request = 2 * n
	}
	s.depth = min(c.depth(s.request+1, maxEntries), int(c.maxCQE)+1)
	return s
}

// fits returns the number of completions that fit at any time.
func (s *ringShape) fits() int {
	if s.deferred {
		return s.depth - s.depth/2
	}
	return s.depth - 1
}

// alloc allocates a ring.
func (s *ringShape) alloc(pageSize int) (*mem.Region, error) {
	size := alignUp(s.depth*cqeSize, pageSize)
	r, err := mem.Alloc(size)
	if err != nil {
		return nil, fmt.Errorf("bnxt_re: completion queue of %d bytes: %w", size, err)
	}
	return r, nil
}

func (c *cq) create(cfg *provider.CQConfig) (err error) {
	shape := c.ctx.caps.shape(cfg.Entries, false)
	if c.region, err = shape.alloc(c.ctx.pageSize); err != nil {
		return err
	}
	req := abi.BnxtReCQReq{CQVA: abi.NewSlicePointer(c.region.Bytes()), CQHandle: cfg.UserHandle}
	var resp abi.BnxtReCQResp
	k, err := c.ctx.File.CreateCQ(uverbs.CQConfig{Entries: uint32(shape.request), UserHandle: cfg.UserHandle, Channel: cfg.Channel, Vector: cfg.Vector},
		uverbs.Driver{In: abi.Bytes(&req), Out: abi.Bytes(&resp)})
	if err != nil {
		return err
	}
	c.handle, c.num, c.phase = k.Handle, resp.CQID, resp.Phase&flagPhase
	switch {
	case c.num&^numMask != 0:
		err = unsupported("CQ %#x", c.num)
	case resp.CompMask&abi.BNXT_RE_CQ_TOGGLE_PAGE_SUPPORT != 0:
		err = c.toggle.open(c.ctx.File, abi.BNXT_RE_CQ_TOGGLE_MEM, c.num, c.ctx.pageSize)
	}
	if err != nil {
		return errors.Join(err, c.ctx.File.DestroyCQ(c.handle))
	}
	c.use(&shape, c.region)
	return nil
}

// use makes a ring the current one.
func (c *cq) use(shape *ringShape, region *mem.Region) {
	c.region, c.ring = region, unsafe.Pointer(unsafe.SliceData(region.Bytes()))
	c.depth, c.half, c.deferred = uint32(shape.depth), uint32(shape.depth/2), shape.deferred
	c.entries.Store(int64(shape.fits()))
}
