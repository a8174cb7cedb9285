// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	heading     = regexp.MustCompile(`(?m)^## (.*)$`)
	recordTitle = regexp.MustCompile(`(?m)^# (.*)$`)
	tablePart   = regexp.MustCompile(`(?m)^(?:\||<!--).*$`)
)

// TestDecisions requires that each record of a decision has a context, a decision and consequences, is
// short, and is listed with its title.
func TestDecisions(t *testing.T) {
	const most = 350 // words, without tables
	files, err := filepath.Glob("../../docs/adr/0*.md")
	if err != nil || len(files) < 40 {
		t.Fatalf("Glob = %d records, %v, want at least 40", len(files), err)
	}
	list := read(t, "../../docs/adr/README.md")
	for _, file := range files {
		text := read(t, file)
		var parts []string
		for _, m := range heading.FindAllStringSubmatch(text, -1) {
			parts = append(parts, m[1])
		}
		if got, want := strings.Join(parts, ", "), "Context, Decision, Consequences"; got != want {
			t.Errorf("%s has the parts %q, want %q", file, got, want)
		}
		if n := words(tablePart.ReplaceAllString(text, "")); n > most {
			t.Errorf("%s has %d words, want at most %d", file, n, most)
		}
		title := recordTitle.FindStringSubmatch(text)
		if title == nil || !strings.Contains(list, "- ["+title[1]+"]("+path.Base(filepath.ToSlash(file))+")\n") {
			t.Errorf("docs/adr/README.md does not list %s with its title", file)
		}
	}
}
