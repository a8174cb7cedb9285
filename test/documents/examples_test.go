// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamples requires that each example is short, names the line that runs it, and is
// listed.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/main.go")
	if err != nil || len(files) < 7 {
		t.Fatalf("Glob = %d examples, %v, want at least 7", len(files), err)
	}
	list := read(t, "../../examples/README.md")
	for _, file := range files {
		text := read(t, file)
		name := path.Base(path.Dir(filepath.ToSlash(file)))
		if n := strings.Count(text, "\n"); n >= 120 {
			t.Errorf("examples/%s/main.go has %d lines, want fewer than 120", name, n)
		}
		run := `go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/` + name + "\n"
		if !strings.Contains(text, "//\t"+run) {
			t.Errorf("examples/%s/main.go does not name the line %q", name, run)
		}
		if !strings.Contains(list, "("+name+"/main.go)") {
			t.Errorf("examples/README.md does not list %s", name)
		}
	}
}
