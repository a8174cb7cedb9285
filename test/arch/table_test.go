// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// imports lists the imports of a package's files, except tests.
type imports struct {
	ours   map[string]bool // packages of this module
	xsys   bool
	unsafe []string // files
}

// TestTable compares the table of ARCHITECTURE.md with the imports, and the rules with both.
// The rules must not allow unused imports.
func TestTable(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(moduleRoot(t), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	found := map[string]*imports{}
	eachFile(t, func(file string, src []byte) {
		if !strings.HasSuffix(file, "_test.go") {
			note(found, file, src)
		}
	})
	table := rowsOf(string(doc))
	if len(table) < len(rules)/2 {
		t.Fatalf("%d rows: the test looked in the wrong place", len(table))
	}
	for pkg, row := range table {
		for _, wrong := range differences(row, found[pkg], found) {
			t.Errorf("ARCHITECTURE.md: %s: %s", pkg, wrong)
		}
	}
	for pkg, r := range rules {
		if table[pkg] == nil && !strings.HasPrefix(pkg, "test/") {
			t.Errorf("%s has no row in ARCHITECTURE.md", pkg)
		}
		in := found[pkg]
		for _, p := range r.ours {
			if in == nil || !strings.HasSuffix(p, "/...") && !in.ours[p] {
				t.Errorf("rules_test.go: %s may import %s, and does not", pkg, p)
			}
		}
		if in != nil && r.xsys && !in.xsys {
			t.Errorf("rules_test.go: %s may import golang.org/x/sys, and does not", pkg)
		}
	}
}

func TestTableFindsDifferences(t *testing.T) {
	found := map[string]*imports{}
	note(found, "a/x.go", []byte("package a\nimport \"purerdma/internal/mem\"\nimport \"purerdma/b/c\"\nimport \"unsafe\""))
	note(found, "internal/mem/x.go", []byte("package mem\nimport \"golang.org/x/sys/unix\""))
	for row, want := range map[string]string{
		"| a | text | mem, b/c | no | x.go |":      "",
		"| a | text | mem, b/c | no | yes |":       "",
		"| a | text | b/* | no | yes |":            "it imports internal/mem",
		"| a | text | mem, b/*, d | no | yes |":    "it does not import d",
		"| a | text | mem, b/c | yes | x*.go |":    "x/sys: false",
		"| a | text | mem, b/c | no | no |":        "unsafe: [x.go]",
		"| a | text | mem, b/c | no | y.go |":      "unsafe: [x.go]",
		"| internal/mem | text | - | yes | no |":   "",
		"| internal/mem | text | - | yes | x.go |": "unsafe: []",
		"| e | text | - | no | no |":               "there is no such package",
	} {
		for pkg, r := range rowsOf("| package | contents | imports in this module | x/sys | unsafe |\n|---|---|---|---|---|\n" + row + "\n") {
			if got := strings.Join(differences(r, found[pkg], found), "; "); got != want {
				t.Errorf("%s: %q, want %q", row, got, want)
			}
		}
	}
}

// note adds the imports of a file.
func note(found map[string]*imports, file string, src []byte) {
	dir := path.Dir(file)
	in := found[dir]
	if in == nil {
		in = &imports{ours: map[string]bool{}}
		found[dir] = in
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ImportsOnly)
	if err != nil {
		return // another test reports it
	}
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		if ours, ok := strings.CutPrefix(p, module+"/"); ok {
			in.ours[ours] = true
		} else if p == "unsafe" {
			in.unsafe = append(in.unsafe, path.Base(file))
		}
		in.xsys = in.xsys || strings.HasPrefix(p, "golang.org/x/sys/")
	}
}

// rowsOf returns the cells of each package with its own row in the table of packages.
func rowsOf(doc string) map[string][]string {
	rows := map[string][]string{}
	_, table, _ := strings.Cut(doc, "| package | contents |")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) == 5 && !strings.Contains(cells[0], "*") {
			rows[cells[0]] = cells
		}
	}
	return rows
}

// differences returns the differences between a row and the code. The row uses short names for
// packages of internal, and "x/*" for the packages in x.
func differences(row []string, in *imports, all map[string]*imports) (out []string) {
	if in == nil {
		return []string{"there is no such package"}
	}
	left := maps.Clone(in.ours)
	for _, name := range strings.Split(row[2], ", ") {
		if name == "-" {
			continue
		}
		if all["internal/"+name] != nil {
			name = "internal/" + name
		}
		used := false
		for p := range left {
			if ok, _ := path.Match(name, p); ok {
				delete(left, p)
				used = true
			}
		}
		if !used {
			out = append(out, "it does not import "+name)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(left)) {
		out = append(out, "it imports "+p)
	}
	if in.xsys != (row[3] == "yes") {
		out = append(out, "x/sys: "+strconv.FormatBool(in.xsys))
	}
	patterns := strings.Split(row[4], ", ")
	matches := func(file string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, file); return ok })
	}
	fits := len(in.unsafe) == 0
	switch row[4] {
	case "no":
	case "yes":
		fits = !fits
	default:
		fits = !fits && !slices.ContainsFunc(in.unsafe, func(f string) bool { return !matches(f) })
	}
	if !fits {
		out = append(out, "unsafe: ["+strings.Join(in.unsafe, " ")+"]")
	}
	return out
}
