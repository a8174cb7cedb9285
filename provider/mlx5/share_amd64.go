// SPDX-License-Identifier: Apache-2.0

//go:build !race && !purego

package mlx5

// storeShared stores what another goroutine loads by sync/atomic, after everything
// that this one has loaded before: on amd64 any store is that.
func storeShared(p *uint32, v uint32) { *p = v }
