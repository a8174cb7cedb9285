// SPDX-License-Identifier: Apache-2.0

package longtest

import (
	"strings"
	"testing"
)

// recorder records whether a test skipped itself, and its message.
type recorder struct {
	testing.TB
	skipped string
}

func (r *recorder) Helper()          {}
func (r *recorder) Skip(args ...any) { r.skipped = args[0].(string) }

func TestNeed(t *testing.T) {
	for value, runs := range map[string]bool{"": false, "0": false, "1": true} {
		t.Setenv(variable, value)
		if got := Enabled(); got != runs {
			t.Errorf("Enabled() with %s=%q = %v, want %v", variable, value, got, runs)
		}
		r := recorder{TB: t}
		Need(&r)
		if got := r.skipped == ""; got != runs {
			t.Errorf("Need with %s=%q lets the test run: %v, want %v", variable, value, got, runs)
		}
		if !runs && !strings.HasPrefix(r.skipped, Notice) {
			t.Errorf("Need skips with %q, want the prefix %q", r.skipped, Notice)
		}
	}
}
