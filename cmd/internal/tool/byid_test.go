// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"testing"

	"purerdma/cm"
)

// TestByID checks that Load returns a stored object until it is deleted.
func TestByID(t *testing.T) {
	var b ByID[int]
	one, two, n := new(cm.ID), new(cm.ID), 1
	b.Store(one, &n)
	if got := b.Load(one); got != &n {
		t.Errorf("Load(stored) = %v, want %v", got, &n)
	}
	if got := b.Load(two); got != nil {
		t.Errorf("Load(unknown) = %v, want nil", got)
	}
	b.Delete(one)
	if got := b.Load(one); got != nil {
		t.Errorf("Load(deleted) = %v, want nil", got)
	}
}
