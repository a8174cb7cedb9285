// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"io/fs"
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

// TestExamples requires that each example is in one file, names the lines that run it, and is listed.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/main.go")
	if err != nil || len(files) < 7 {
		t.Fatalf("Glob = %d examples, %v, want at least 7", len(files), err)
	}
	list := read(t, "../../examples/README.md")
	for _, file := range files {
		name := path.Base(path.Dir(filepath.ToSlash(file)))
		sources, err := filepath.Glob(path.Join("../../examples", name, "*.go"))
		if err != nil {
			t.Fatalf("filepath.Glob: %v", err)
		}
		sources = slices.DeleteFunc(sources, func(s string) bool { return strings.HasSuffix(s, "_test.go") })
		if len(sources) != 1 && severalFiles[name] == "" {
			t.Errorf("examples/%s has %d files, want 1", name, len(sources))
		}
		run := "//\tmake bin/rdmavm\n//\tgo run -exec \"$PWD/bin/rdmavm -hosts 2\" ./examples/" + name + "\n"
		if !strings.Contains(read(t, file), run) {
			t.Errorf("examples/%s/main.go does not name the lines %q", name, run)
		}
		if !strings.Contains(list, "("+name+"/main.go)") {
			t.Errorf("examples/README.md does not list %s", name)
		}
	}
}

// TestExampleFiles requires that each file of an example or of a tutorial is short.
func TestExampleFiles(t *testing.T) {
	const most = 119 // lines
	n := 0
	err := filepath.WalkDir("../../examples", func(file string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return err
		}
		n++
		if lines := strings.Count(read(t, file), "\n"); lines > most {
			t.Errorf("%s has %d lines, want at most %d", file, lines, most)
		}
		return nil
	})
	if err != nil || n < 30 {
		t.Errorf("WalkDir = %v with %d files, want at least 30", err, n)
	}
}
