// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestRefs closes under callers: no call is in progress when close returns, and
// none begins afterwards.
func TestRefs(t *testing.T) {
	for range 200 {
		r := newRefs()
		var closed atomic.Bool
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for r.enter() {
					if closed.Load() {
						t.Error("in a call after close")
					}
					r.leave()
				}
			})
		}
		wg.Go(func() {
			if !r.close() {
				t.Error("close says that it is the second")
			}
			closed.Store(true)
		})
		wg.Wait()
		if r.close() || r.enter() {
			t.Error("close or enter after close")
		}
	}
}
