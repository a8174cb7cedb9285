// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"encoding/binary"
	"sync"

	"purerdma/abi"
)

// pooled is a request with room for its attributes and for small inputs and outputs. All of it is
// pooled. The commands that make, move and destroy PDs, CQs, QPs and MRs use it, because a server
// sends them for each connection.
//
// A Transport keeps nothing of a request.
type pooled struct {
	Request
	attrs [16]Attr
	room  [32]uint64
	used  int // of room
	withFiles
}

var requests = sync.Pool{New: func() any {
	p := new(pooled)
	p.next = p.opened
	return p
}}

// newRequest returns an empty request. Its user frees it.
func newRequest(object, method uint16) *pooled {
	p := requests.Get().(*pooled)
	p.Object, p.Method, p.Attrs, p.used = object, method, p.attrs[:0], 0
	return p
}

// free releases the request and the memory that out has returned.
func (p *pooled) free() {
	// They hold references to memory. If there were too many for the array, it still holds the
	// first of them.
	clear(p.attrs[:min(len(p.Attrs), len(p.attrs))])
	p.Attrs = nil
	if p.num > 0 {
		p.withFiles = withFiles{next: p.next}
	}
	requests.Put(p)
}

func (p *pooled) add(a Attr) { p.Attrs = append(p.Attrs, a) }

// in passes a copy of b, which must not hold an address.
func (p *pooled) in(id uint16, b []byte) {
	buf := p.take(len(b))
	copy(buf, b)
	p.add(Attr{ID: id, Kind: AttrIn, Buf: buf})
}

// number passes a number of 64 bits, or a constant of an enum.
func (p *pooled) number(id uint16, v uint64) {
	buf := p.take(8)
	binary.NativeEndian.PutUint64(buf, v)
	p.add(Attr{ID: id, Kind: AttrIn, Buf: buf})
}

// out makes the kernel fill n bytes, which it returns.
func (p *pooled) out(id uint16, n int) []byte {
	buf := p.take(n)
	p.add(outBytes(id, buf))
	return buf
}

// take returns n bytes of the room, aligned for any integer.
func (p *pooled) take(n int) []byte {
	words := (n + 7) / 8
	if words > len(p.room)-p.used {
		return make([]byte, n)
	}
	b := abi.Bytes(&p.room)[8*p.used:][:n:n]
	p.used += words
	return b
}
