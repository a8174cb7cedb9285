// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/build"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tree contains the names that documents may use.
type tree struct {
	paths   map[string]bool // files and directories.
	names   map[string]bool // names of files without their directory.
	targets map[string]bool // of the Makefile
	tests   map[string]bool
}

var (
	docFile   = regexp.MustCompile(`[\w./-]*\w\.(?:go|sh|md)\b`)
	docLink   = regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)
	docTarget = regexp.MustCompile("(?:`|^ +)make ([a-z][a-z0-9-]*)(?:`|\\s|$)")
	docTest   = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)
	makeRule  = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	goTest    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
)

// TestDocuments checks that the files, directories, targets and tests named in documents exist.
func TestDocuments(t *testing.T) {
	root := moduleRoot(t)
	in := tree{paths: map[string]bool{".": true}, names: map[string]bool{}, targets: map[string]bool{}, tests: map[string]bool{}}
	var documents []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == root {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") || file == filepath.Join(root, "bin")) {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		in.paths[rel], in.names[d.Name()] = true, true
		if path.Ext(rel) == ".md" {
			documents = append(documents, rel)
		}
		if strings.HasSuffix(rel, "_test.go") {
			src, err := os.ReadFile(file)
			for _, m := range goTest.FindAllSubmatch(src, -1) {
				in.tests[string(m[1])] = true
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for _, m := range makeRule.FindAllSubmatch(makefile, -1) {
		in.targets[string(m[1])] = true
	}
	if !slices.Contains(documents, "README.md") || !in.targets["test"] || !in.tests["TestDocuments"] {
		t.Fatal("the test did not find README.md, the target test and its own name")
	}
	for _, doc := range documents {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(doc)))
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		for _, name := range in.missing(doc, string(text)) {
			t.Errorf("%s names %s, which does not exist", doc, name)
		}
	}
}

// missing returns the names in a document that do not exist.
func (in *tree) missing(doc, text string) (out []string) {
	there := func(name string) bool {
		if strings.HasPrefix(name, "/src/") { // after $(go env GOROOT)
			_, err := os.Stat(filepath.Join(build.Default.GOROOT, filepath.FromSlash(name)))
			return err == nil
		}
		return in.paths[path.Clean(name)] || in.paths[path.Join(path.Dir(doc), name)]
	}
	for line := range strings.Lines(text) {
		for _, name := range docFile.FindAllString(line, -1) {
			if !there(name) && !(in.names[name] && !strings.Contains(name, "/")) {
				out = append(out, name)
			}
		}
		for _, m := range docLink.FindAllStringSubmatch(line, -1) {
			if !in.paths[path.Join(path.Dir(doc), m[1])] {
				out = append(out, m[1])
			}
		}
		for _, m := range docTarget.FindAllStringSubmatch(line, -1) {
			if !in.targets[m[1]] {
				out = append(out, "make "+m[1])
			}
		}
		for _, name := range docTest.FindAllString(line, -1) {
			if !in.tests[name] {
				out = append(out, name)
			}
		}
	}
	return out
}

func TestDocumentsFindsWhatIsMissing(t *testing.T) {
	in := tree{
		paths:   map[string]bool{"docs": true, "docs/a.md": true, "cm/id.go": true},
		names:   map[string]bool{"a.md": true, "id.go": true},
		targets: map[string]bool{"test": true}, tests: map[string]bool{"TestIt": true},
	}
	for text, want := range map[string]string{
		"`cm/id.go`, id.go, [a](a.md) and [a](../docs/a.md#b), `make test`, TestIt": "",
		"[web](https://example.com)":       "",
		"`cm/gone.go`":                     "cm/gone.go",
		"$(go env GOROOT)/src/net/net.go":  "",
		"$(go env GOROOT)/src/net/gone.go": "/src/net/gone.go",
		"gone.go":                          "gone.go",
		"verbs/id.go":                      "verbs/id.go",
		"[a](b)":                           "b",
		"`make gone`":                      "make gone",
		"    make gone   # and more":       "make gone",
		"they make bread":                  "",
		"`make test FLAGS=1`, TestOther":   "TestOther",
	} {
		if got := strings.Join(in.missing("docs/a.md", text), ", "); got != want {
			t.Errorf("missing(%q) = %q, want %q", text, got, want)
		}
	}
}
