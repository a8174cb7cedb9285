// SPDX-License-Identifier: Apache-2.0

//go:build !uncounted && (race || !(amd64 || arm64))

package mlx5

import "sync/atomic"

// add and load are described in count.go.

func add(p *uint64, n uint64) { atomic.AddUint64(p, n) }

func load(p *uint64) uint64 { return atomic.LoadUint64(p) }
