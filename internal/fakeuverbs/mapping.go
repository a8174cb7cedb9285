// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

import (
	"net"
	"syscall"

	"purerdma/internal/mem"
)

// Offer allocates memory that the program can map once, and returns its offset for mmap(2). The mapping
// then owns the memory.
func (c *Context) Offer(r *mem.Region) uint64 {
	off := c.offset
	c.offset += 1 << 24
	c.offered[off] = r
	return off
}

// Withdraw cancels an offer that has not been mapped, and frees its memory.
func (c *Context) Withdraw(offset uint64) {
	if r := c.offered[offset]; r != nil {
		delete(c.offered, offset)
		r.Free()
	}
}

// Mmap maps offered memory.
func (c *Context) Mmap(offset int64, length int) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if c.gone {
		return nil, syscall.EIO
	}
	if length <= 0 {
		return nil, syscall.EINVAL
	}
	r := c.offered[uint64(offset)]
	if r == nil && c.MapAt != nil {
		var err error
		if r, err = c.MapAt(offset, length); err != nil {
			return nil, err
		}
	}
	if r == nil || length > len(r.Bytes()) {
		return nil, syscall.EINVAL
	}
	delete(c.offered, uint64(offset))
	b := r.Bytes()
	c.mapped[&b[0]] = r
	return b[:length], nil
}

// Replace replaces a mapping with zeroed memory.
func (c *Context) Replace(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.mapped[&b[0]]
	if r == nil {
		return syscall.EINVAL
	}
	c.unmaps(r)
	return mem.Replace(r.Bytes())
}

// Munmap unmaps memory that Mmap returned.
func (c *Context) Munmap(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.mapped[&b[0]]
	if r == nil {
		return syscall.EINVAL
	}
	delete(c.mapped, &b[0])
	c.unmaps(r)
	return r.Free()
}

func (c *Context) unmaps(r *mem.Region) {
	if c.OnUnmap != nil {
		c.OnUnmap(r.Bytes())
	}
}
