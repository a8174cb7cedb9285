// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// severalFiles lists the examples that have more than one file, with the reason. Each of their files is
// short.
var severalFiles = map[string]string{
	"inflight": "it does one task in three ways, each in a file of its own",
}

// TestExamples requires that each example is short and in one file, names the line that runs it, and
// is listed.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/main.go")
	if err != nil || len(files) < 7 {
		t.Fatalf("Glob = %d examples, %v, want at least 7", len(files), err)
	}
	list := read(t, "../../examples/README.md")
	for _, file := range files {
		text := read(t, file)
		name := path.Base(path.Dir(filepath.ToSlash(file)))
		sources, err := filepath.Glob(path.Join("../../examples", name, "*.go"))
		if err != nil {
			t.Fatalf("filepath.Glob: %v", err)
		}
		sources = slices.DeleteFunc(sources, func(s string) bool { return strings.HasSuffix(s, "_test.go") })
		if len(sources) != 1 && severalFiles[name] == "" {
			t.Errorf("examples/%s has %d files, want 1", name, len(sources))
		}
		for _, source := range sources {
			if n := strings.Count(read(t, source), "\n"); n >= 120 {
				t.Errorf("%s has %d lines, want fewer than 120", source, n)
			}
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
