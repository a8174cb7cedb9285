// SPDX-License-Identifier: Apache-2.0

//go:build !race

package spin

import (
	"runtime"
	"sync/atomic"
)

// Lock is a spin lock for the few instructions of a post or a poll. Acquiring it takes one locked
// instruction and releasing it none, which halves its cost. The release of a post can be part of
// the store to a register of the device (package mmio). The race detector does not track it, so
// with the detector Lock is a sync.Mutex.
type Lock struct{ word uint32 }

// Lock acquires the lock.
func (l *Lock) Lock() {
	if atomic.SwapUint32(&l.word, 1) != 0 {
		l.slow()
	}
}

// slow yields after a while, because the holder may be a goroutine that is not running.
//
//go:noinline
func (l *Lock) slow() {
	for i := 0; !atomic.CompareAndSwapUint32(&l.word, 0, 1); i++ {
		if i > 100 {
			runtime.Gosched()
		}
	}
}

// Unlock releases the lock.
func (l *Lock) Unlock() { StoreRelease(&l.word, 0) }

// Word returns the word to which a function of package mmio stores 0, which releases the lock.
// Call Released after it.
func (l *Lock) Word() *uint32 { return &l.word }

// Released ends a release by a store to the Word.
func (l *Lock) Released() {}
