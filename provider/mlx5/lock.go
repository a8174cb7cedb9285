// SPDX-License-Identifier: Apache-2.0

//go:build !race

package mlx5

import (
	"runtime"
	"sync/atomic"
)

// lock is a spin lock for the few instructions of a post or a poll. Acquiring it takes one locked
// instruction and releasing it none, which halves its cost. The release of a post is part of
// mmio.Ring. The race detector does not track it, so with the detector lock is a sync.Mutex.
type lock struct{ word uint32 }

func (l *lock) Lock() {
	if atomic.SwapUint32(&l.word, 1) != 0 {
		l.slow()
	}
}

// slow yields after a while, because the holder may be a goroutine that is not running.
//
//go:noinline
func (l *lock) slow() {
	for i := 0; !atomic.CompareAndSwapUint32(&l.word, 0, 1); i++ {
		if i > 100 {
			runtime.Gosched()
		}
	}
}

func (l *lock) Unlock() { storeRelease(&l.word, 0) }

// ringWord returns the word that mmio.Ring stores 0 to, which releases the lock. afterRing is
// called after it.
func (l *lock) ringWord() *uint32 { return &l.word }
func (l *lock) afterRing()        {}
