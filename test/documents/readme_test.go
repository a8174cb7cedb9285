// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"strings"
	"testing"
)

// TestReadme checks the parts of the README. Its status table has at most 8 rows, and the first row has
// the state of mlx5. Its example has at most 20 lines.
func TestReadme(t *testing.T) {
	text := read(t, "../../README.md")
	_, status, _ := strings.Cut(text, "\n| status | |\n|---|---|\n")
	status, _, _ = strings.Cut(status, "\n\n")
	rows := strings.Split(status, "\n")
	if len(rows) > 8 {
		t.Errorf("the status table of README.md has %d rows, want at most 8", len(rows))
	}
	if first := rows[0]; !strings.Contains(first, "mlx5") || !strings.Contains(first, "not yet run on hardware") {
		t.Errorf("the first row of the status table is %q, want mlx5 and %q", first, "not yet run on hardware")
	}
	list := blocks("README.md", text)
	if len(list) != 1 {
		t.Fatalf("README.md has %d blocks of Go code, want 1", len(list))
	}
	if n := strings.Count(list[0].code, "\n"); n > 20 {
		t.Errorf("the example of README.md has %d lines, want at most 20", n)
	}
}
