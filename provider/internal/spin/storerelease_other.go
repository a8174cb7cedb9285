// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 || race || purego

package spin

import "sync/atomic"

// StoreRelease stores a value that another goroutine loads by sync/atomic, after all earlier loads
// and stores of this goroutine.
func StoreRelease(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
