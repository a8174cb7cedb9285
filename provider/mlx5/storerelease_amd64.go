// SPDX-License-Identifier: Apache-2.0

//go:build !race && !purego

package mlx5

// storeRelease stores a value that another goroutine loads by sync/atomic. It is ordered after all
// earlier loads of this goroutine. On amd64 any store is.
func storeRelease(p *uint32, v uint32) { *p = v }
