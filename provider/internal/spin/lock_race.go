// SPDX-License-Identifier: Apache-2.0

//go:build race

package spin

import "sync"

// Lock is described in lock.go.
type Lock struct {
	sync.Mutex
	word uint32 // takes the store of package mmio
}

// Word is described in lock.go.
func (l *Lock) Word() *uint32 { return &l.word }

// Released is described in lock.go.
func (l *Lock) Released() { l.Unlock() }
