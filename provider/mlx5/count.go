// SPDX-License-Identifier: Apache-2.0

//go:build !uncounted && !race && (amd64 || arm64)

package mlx5

// add adds to a counter, for which the caller holds a lock. Queues of one goroutine have no lock.
// There another goroutine may load the counter at the same time. These processors load and store
// all 8 bytes at once.
func add(p *uint64, n uint64) { *p += n }

// load loads a counter.
func load(p *uint64) uint64 { return *p }
