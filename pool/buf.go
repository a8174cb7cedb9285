// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"sync/atomic"

	"purerdma/verbs"
)

// Buf is a piece of a pool's memory. It belongs to its user until the last reference is freed. Get
// returns it with one reference. Its methods may be called concurrently, and panic after the last
// Free.
//
// An operation in flight holds a reference of its own. The program takes it with Ref before the post, and
// frees it after the completion. So no other user gets the memory while a device may use it, even if the
// owner of the Buf frees it in the meantime.
type Buf struct {
	refs  atomic.Int32
	class int16 // or wholeSlab, or borrowedPiece
	n     int   // requested bytes
	at    int   // first unit in the slab, or first byte of borrowed memory
	slab  *slab
	pool  *Pool
	next  *Buf // in a list of the pool

	debug *debugBuf // debug mode only
}

// Classes of Bufs that are no blocks of a divided slab.
const (
	wholeSlab     = -1 // the whole slab
	borrowedPiece = -2 // a piece of the program's memory
)

// off returns the offset of the memory in the slab, in bytes.
func (b *Buf) off() int {
	if b.class == borrowedPiece {
		return b.at
	}
	return b.at * unit
}

// block returns the number of bytes that the Buf takes of its slab, which is at least Len. Bufs of
// borrowed memory take none.
func (b *Buf) block() int {
	switch b.class {
	case wholeSlab:
		return b.slab.size
	case borrowedPiece:
		return 0
	}
	return classUnits(int(b.class)) * unit
}

// memory returns the whole block, nil if the memory is another device's or borrowed.
func (b *Buf) memory() []byte {
	if b.slab.mem == nil || b.class == borrowedPiece {
		return nil
	}
	return b.slab.mem[b.off():][:b.block()]
}

// Pool returns the pool that the Buf belongs to, which is the receiver of the Get, Copy or Borrow that
// returned the Buf.
func (b *Buf) Pool() *Pool {
	b.use("Pool")
	return b.pool
}

// Len returns the length in bytes, which is the length that Get was called with.
func (b *Buf) Len() int {
	b.use("Len")
	return b.n
}

// Bytes returns the memory, nil if it is another device's. The memory of a new Buf has any content,
// for example data of its last user. The slice must not be used after the last Free.
func (b *Buf) Bytes() []byte {
	b.use("Bytes")
	if b.slab.mem == nil {
		return nil
	}
	off := b.off()
	return b.slab.mem[off : off+b.n : off+b.n]
}

// SGE returns the whole Buf as an element of a work request. It panics if Len does not fit the 32
// bits of an element's length.
func (b *Buf) SGE() verbs.SGE {
	b.use("SGE")
	return b.slab.mr.Slice(b.off(), b.n)
}

// Slice returns the n bytes from off on as an element of a work request. Like MR.Slice of package
// verbs, it panics if they are not all in the Buf, or if n does not fit 32 bits.
func (b *Buf) Slice(off, n int) verbs.SGE {
	b.use("Slice")
	if off < 0 || n < 0 || off > b.n-n {
		panic(fmt.Sprintf("pool: %d bytes from %d on of a Buf of %d", n, off, b.n))
	}
	return b.slab.mr.Slice(b.off()+off, n)
}

// Remote returns the Buf in the form that peers use. It panics if Config.Access has no remote
// right, and for memory of Borrow. The key reaches the memory of other Bufs and stays valid after Free. See Config.Access.
func (b *Buf) Remote() verbs.RemoteMemory {
	b.use("Remote")
	if b.class == borrowedPiece || b.pool.access&(verbs.RemoteRead|verbs.RemoteWrite|verbs.RemoteAtomic) == 0 {
		panic("pool: Remote of a Buf without remote rights")
	}
	return b.slab.mr.Remote().Slice(b.off(), b.n)
}

// Ref adds a reference and returns b. Each reference needs a Free of its own.
func (b *Buf) Ref() *Buf {
	for {
		n := b.refs.Load()
		if n <= 0 {
			b.panicFreed("Ref")
		}
		if b.refs.CompareAndSwap(n, n+1) {
			return b
		}
	}
}

// Free releases a reference. After the last Free, the memory goes back to the pool and may be handed to
// another user at once. Free never waits for the kernel, even after Pool.Close. Free of a freed Buf
// panics. Outside of debug mode, Get reuses freed Bufs. A surplus Free then releases the reference of the
// next user instead of a panic.
func (b *Buf) Free() {
	for {
		n := b.refs.Load()
		if n <= 0 {
			b.panicFreed("Free")
		}
		if !b.refs.CompareAndSwap(n, n-1) {
			continue
		}
		if n > 1 {
			return
		}
		if b.debug != nil {
			b.retire()
		} else {
			b.pool.release(b)
		}
		return
	}
}

// use panics if the Buf was freed.
func (b *Buf) use(method string) {
	if b.refs.Load() <= 0 {
		b.panicFreed(method)
	}
}
