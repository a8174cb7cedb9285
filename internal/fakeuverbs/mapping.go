// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

import (
	"net"
	"syscall"

	"purerdma/internal/mem"
)

// Offer makes memory that the program can map, once, and returns the offset that
// it does so by. Who maps it owns it then.
func (c *Context) Offer(r *mem.Region) uint64 {
	off := c.offset
	c.offset += 1 << 24
	c.offered[off] = r
	return off
}

// Withdraw takes back an offer that nobody has taken, and frees its memory.
func (c *Context) Withdraw(offset uint64) {
	if r := c.offered[offset]; r != nil {
		delete(c.offered, offset)
		r.Free()
	}
}

// Mmap maps what was offered.
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

// Replace puts zeros in the place of a mapping.
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

// Munmap unmaps what Mmap gave.
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
