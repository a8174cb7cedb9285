// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"

	"purerdma/verbs"
)

// TestPreferredInline makes QPs with the preferred inline data if the device supports it, and with its limit otherwise.
func TestPreferredInline(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, _ := rt.pair(t, verbs.QPCap{})
		pd := l.pd
		inline := func(least, preferred int) int {
			t.Helper()
			qp, err := pd.CreateQP(verbs.QPConfig{Cap: verbs.QPCap{Inline: least}, PreferredInline: preferred})
			if err != nil {
				t.Fatalf("CreateQP() with %d bytes inline, preferred %d = %v", least, preferred, err)
			}
			defer qp.Close()
			return qp.Cap().Inline
		}
		limit := inline(1, 1<<20)
		if limit < 64 {
			t.Errorf("Cap().Inline with all that the device has = %d, want at least 64", limit)
		}
		for _, c := range []struct{ least, preferred int }{{1, 60}, {60, 1}, {limit, 1}, {1, limit}} {
			if got, want := inline(c.least, c.preferred), max(c.least, c.preferred); got < want {
				t.Errorf("Cap().Inline with %d bytes, preferred %d = %d, want at least %d", c.least, c.preferred, got, want)
			}
		}
	})
}
