// SPDX-License-Identifier: Apache-2.0

//go:build !race && !purego

package spin

// StoreRelease stores a value that another goroutine loads by sync/atomic. It is ordered after all
// earlier loads and stores of this goroutine. On amd64 any store is.
func StoreRelease(p *uint32, v uint32) { *p = v }
