// SPDX-License-Identifier: Apache-2.0

//go:build linux

package replay

import (
	"bytes"
	"encoding/binary"

	"purerdma/test/oracle/vector"
)

// softRing is the kernel's side of a queue in shared memory. An rxe queue has a header with the indices. A siw queue is an
// array, and a word of each slot marks its owner.
type softRing struct {
	mem           []byte
	headed        bool
	size, n       int
	posted, taken uint32 // slots, not wrapped
}

// Offsets in rxe's header, and in siw's slots.
const (
	ringProducer = 128
	ringConsumer = 256
	ringData     = 384

	siwFlags  = 8 // two bytes, or one byte in a completion
	siwOpcode = 11
)

// headedRing returns a ring of rxe, or nil without memory.
func headedRing(mem []byte) *softRing {
	if mem == nil {
		return nil
	}
	log, mask := binary.NativeEndian.Uint32(mem), binary.NativeEndian.Uint32(mem[4:])
	return &softRing{mem: mem, headed: true, size: 1 << log, n: int(mask) + 1}
}

func siwRing(mem []byte, size int, n uint32) *softRing {
	if n == 0 {
		return nil
	}
	return &softRing{mem: mem, size: size, n: int(n)}
}

func (r *softRing) slot(i uint32) []byte {
	at := int(i%uint32(r.n)) * r.size
	if r.headed {
		at += ringData
	}
	return r.mem[at : at+r.size]
}

// poison fills the slots that do not belong to the kernel.
func (r *softRing) poison() {
	for i := r.posted; i != r.taken+uint32(r.n); i++ {
		s := r.slot(i)
		for k := range s {
			s[k] = vector.Poison
		}
		if !r.headed {
			s[siwFlags], s[siwFlags+1] = 0, 0
		}
	}
}

// take takes n slots as the kernel.
func (r *softRing) take(n uint32) {
	for range n {
		if !r.headed {
			s := r.slot(r.taken)
			s[siwFlags], s[siwFlags+1] = 0, 0
		}
		r.taken++
	}
	if r.headed {
		binary.NativeEndian.PutUint32(r.mem[ringConsumer:], r.taken%uint32(r.n))
	}
}

func (r *softRing) producer() uint32 { return binary.NativeEndian.Uint32(r.mem[ringProducer:]) }

// add adds a completion as the kernel.
func (r *softRing) add(e []byte) {
	copy(r.slot(r.posted), e)
	r.posted++
	if r.headed {
		binary.NativeEndian.PutUint32(r.mem[ringProducer:], r.posted%uint32(r.n))
	}
}

// written returns the bytes that the slot must have according to the oracle, whose vectors omit poison at the end. For
// words that the oracle's provider did not write, it returns the present words.
func written(want, got []byte) []byte {
	w := append(append([]byte(nil), want...), bytes.Repeat([]byte{vector.Poison}, len(got)-len(want))...)
	for i := 0; i+4 <= len(w); i += 4 {
		if binary.NativeEndian.Uint32(w[i:]) == vector.Poison*0x01010101 {
			copy(w[i:i+4], got[i:])
		}
	}
	return w
}
