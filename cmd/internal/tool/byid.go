// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"sync"

	"purerdma/cm"
)

// ByID maps IDs to a program's objects, as C programs do with the context of struct rdma_cm_id.
// It is safe for concurrent use. The zero ByID is empty.
type ByID[T any] struct{ m sync.Map }

// Store sets the object of an ID.
func (b *ByID[T]) Store(id *cm.ID, v *T) { b.m.Store(id, v) }

// Load returns the object of an ID, nil if it has none.
func (b *ByID[T]) Load(id *cm.ID) *T {
	v, _ := b.m.Load(id)
	p, _ := v.(*T)
	return p
}

// Delete removes an ID.
func (b *ByID[T]) Delete(id *cm.ID) { b.m.Delete(id) }
