// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"sync"

	"purerdma/cm"
)

// ByID finds a program's objects by their IDs, as C programs do with the context of struct
// rdma_cm_id. Goroutines may use it at the same time. The zero ByID is empty.
type ByID[T any] struct{ m sync.Map }

// Store notes the object of an ID.
func (b *ByID[T]) Store(id *cm.ID, v *T) { b.m.Store(id, v) }

// Load returns the object of an ID, nil if it has none.
func (b *ByID[T]) Load(id *cm.ID) *T {
	v, _ := b.m.Load(id)
	p, _ := v.(*T)
	return p
}

// Delete forgets an ID.
func (b *ByID[T]) Delete(id *cm.ID) { b.m.Delete(id) }
