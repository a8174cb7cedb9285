// SPDX-License-Identifier: Apache-2.0

package stream

import "purerdma/pool"

// block is a Buf with data to be sent. The current block of the writer, segments and frames have
// references to it. It is reused. link.mu guards it.
type block struct {
	buf    *pool.Buf
	charge charge
	refs   int
	next   *block
}

// newBlock returns a block with one reference. It takes over the reference to buf and the charge.
func (s *sender) newBlock(buf *pool.Buf, c charge) *block {
	b := s.unused
	if b == nil {
		b = new(block)
	} else {
		s.unused = b.next
	}
	*b = block{buf: buf, charge: c, refs: 1}
	return b
}

// unref releases a reference. The last one frees the Buf, and returns its share of the memory.
func (s *sender) unref(b *block) {
	if b.refs--; b.refs > 0 {
		return
	}
	b.buf.Free()
	s.share.release(b.charge)
	b.buf, b.next, s.unused = nil, s.unused, b
}

// dropSpare frees the spare block.
func (s *sender) dropSpare() {
	if s.spare != nil {
		s.unref(s.spare)
		s.spare = nil
	}
}
