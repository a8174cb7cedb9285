// SPDX-License-Identifier: Apache-2.0

package verbs

import "testing"

// TestEnding: the context ends whether it was asked for before or after.
func TestEnding(t *testing.T) {
	var before, after lazyDone
	ctx := before.context()
	if ctx.Err() != nil || before.context() != ctx {
		t.Errorf("%v before the end", ctx.Err())
	}
	before.end()
	after.end()
	after.end()
	if ctx.Err() == nil || after.context().Err() == nil {
		t.Error("it has not ended")
	}
}
