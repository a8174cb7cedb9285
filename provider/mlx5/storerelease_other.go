// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 || race || purego

package mlx5

import "sync/atomic"

// storeRelease stores what another goroutine loads by sync/atomic, after everything
// that this one has loaded before.
func storeRelease(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
