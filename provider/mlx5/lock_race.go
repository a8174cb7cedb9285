// SPDX-License-Identifier: Apache-2.0

//go:build race

package mlx5

import "sync"

// lock is described in lock.go.
type lock struct {
	sync.Mutex
	word uint32 // takes the store of mmio.Ring
}

func (l *lock) ringWord() *uint32 { return &l.word }
func (l *lock) afterRing()        { l.Mutex.Unlock() }
