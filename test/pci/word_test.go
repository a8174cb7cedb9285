// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

// TestAtomics adds to a word by FetchAdd, by CompareSwap, and by a processor of the host. No addition may be lost.
func TestAtomics(t *testing.T) {
	const additions = 1_000_000
	var word uint64
	b := unsafe.Slice((*byte)(unsafe.Pointer(&word)), 8)
	if !Aligned64(b) || Aligned64(b[:4]) {
		t.Errorf("Aligned64 = %v for 8 bytes and %v for 4, want true and false", Aligned64(b), Aligned64(b[:4]))
	}
	var all sync.WaitGroup
	start := make(chan struct{})
	for _, add := range []func(){
		func() { FetchAdd(b, 1) },
		func() { FetchAdd(b, 1<<20) },
		func() {
			for {
				if now := atomic.LoadUint64(&word); CompareSwap(b, now, now+1<<40) == now {
					return
				}
			}
		},
		func() { atomic.AddUint64(&word, 1) },
	} {
		all.Go(func() {
			<-start
			for range additions {
				add()
			}
		})
	}
	close(start)
	all.Wait()
	if want := uint64(additions * (1<<40 + 1<<20 + 2)); word != want {
		t.Errorf("word = %#x, want %#x", word, want)
	}
	if old := CompareSwap(b, word+1, 7); old != word || binary.NativeEndian.Uint64(b) != word {
		t.Errorf("CompareSwap of another value = %#x, now %#x, want both %#x", old, word, word)
	}
	before := word
	if old := FetchAdd(b, 5); old != before || word != before+5 {
		t.Errorf("FetchAdd(5) = %#x, now %#x, want %#x and %#x", old, word, before, before+5)
	}
}
