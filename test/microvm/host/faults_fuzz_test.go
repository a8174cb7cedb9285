// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
)

// FuzzFault checks that any line of a program in the guest is either executed or rejected.
func FuzzFault(f *testing.F) {
	h, err := startHCAs(context.Background(), 2, f.TempDir(), nil)
	if err != nil {
		f.Fatalf("startHCAs: %v", err)
	}
	f.Cleanup(func() { h.stop() })
	for _, name := range slices.Sorted(maps.Keys(faultArgs)) {
		args := faultArgs[name]
		f.Add("hca0 " + name + strings.Repeat(" 1", len(strings.Fields(args))))
		f.Add("hca0 " + name + strings.Repeat(" 0xffffffff", len(strings.Fields(args))))
	}
	f.Add("hca9 lose 3")
	f.Add("hca0 lose -1 \x00")
	f.Fuzz(func(t *testing.T, line string) {
		if err := h.fault(line); err != nil && !strings.Contains(err.Error(), "fault ") {
			t.Errorf("fault(%q) = %v, want an error that quotes the line", line, err)
		}
	})
}
