// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"strings"
	"testing"
)

// TestWalks requires that each walk through the packages in architecture.md has one sequence diagram.
func TestWalks(t *testing.T) {
	text := read(t, "../../docs/explanation/architecture.md")
	for _, walk := range []string{"Connecting", "Accepting", "One work request"} {
		_, section, found := strings.Cut(text, "\n## "+walk+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if n := strings.Count(section, "```mermaid\nsequenceDiagram\n"); !found || n != 1 {
			t.Errorf("architecture.md has %d sequence diagrams under %q, want 1", n, walk)
		}
	}
}
