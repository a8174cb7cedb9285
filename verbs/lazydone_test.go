// SPDX-License-Identifier: Apache-2.0

package verbs

import "testing"

// TestLazyDone checks that the context ends, whether it was created before or after the end.
func TestLazyDone(t *testing.T) {
	var before, after lazyDone
	ctx := before.context()
	if ctx.Err() != nil || before.context() != ctx {
		t.Errorf("Err() before the end = %v, want nil", ctx.Err())
	}
	before.end()
	after.end()
	after.end()
	if ctx.Err() == nil || after.context().Err() == nil {
		t.Errorf("Err() after the end = %v and %v, want errors", ctx.Err(), after.context().Err())
	}
}
