// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestRefs closes during calls. When close returns, no call may be in progress, and none may
// begin afterwards.
func TestRefs(t *testing.T) {
	for range 200 {
		r := newRefs()
		var closed atomic.Bool
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for r.enter() {
					if closed.Load() {
						t.Error("enter succeeded after close")
					}
					r.leave()
				}
			})
		}
		wg.Go(func() {
			if !r.close() {
				t.Error("close() = false, want true from the first call")
			}
			closed.Store(true)
		})
		wg.Wait()
		if r.close() || r.enter() {
			t.Error("close or enter succeeded after close")
		}
	}
}
