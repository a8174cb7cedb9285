// SPDX-License-Identifier: Apache-2.0

//go:build !race

package ring

import "sync/atomic"

func load(word *atomic.Uint32) uint32     { return word.Load() }
func store(word *atomic.Uint32, v uint32) { word.Store(v) }
