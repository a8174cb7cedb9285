// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestImports checks every file of the module, for any system, against the rules.
func TestImports(t *testing.T) {
	seen := map[string]bool{}
	eachFile(t, func(file string, src []byte) {
		seen[path.Dir(file)] = true
		for _, v := range violations(file, src) {
			t.Error(v)
		}
	})
	for _, pkg := range []string{"abi", "ucma", "uverbs", "provider", "verbs", "cm", "cmd/rping"} {
		if !seen[pkg] {
			t.Errorf("package %s was not found: the test looked in the wrong place", pkg)
		}
	}
}

// eachFile calls fn for the Go files of the main module, named relative to it.
func eachFile(t *testing.T, fn func(file string, src []byte)) {
	t.Helper()
	walkFiles(t, isModule, fn)
}

// walkFiles calls fn for the Go files below the main module's root, named relative to it. It
// leaves out the directories below the root for which skip returns true.
func walkFiles(t *testing.T, skip func(dir string) bool, fn func(file string, src []byte)) {
	t.Helper()
	root := moduleRoot(t)
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin" || skip(file)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		fn(filepath.ToSlash(rel), src)
		return nil
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
}

// TestImports is worth nothing if it cannot fail.
func TestImportsFindsViolations(t *testing.T) {
	for _, tc := range []struct{ file, src, want string }{
		{"cm/x.go", `import "purerdma/uverbs"`, "cm may not import uverbs"},
		{"cm/x.go", `import "purerdma/ucma"`, ""},
		{"cm/x.go", `import "unsafe"`, "may not import unsafe"},
		{"cm/x.go", `import "golang.org/x/sys/unix"`, "may not import golang.org/x/sys/unix"},
		{"cm/x.go", `import "C"`, "cgo"},
		{"cm/x.go", `import _ "embed"`, "blank import"},
		{"cm/x.go", `func init() {}`, "init function"},
		{"cm/bridge.go", `func init() {}`, "init function"},
		{"verbs/bridge.go", `func init() {}`, ""},
		{"cm/x.go", `import "github.com/google/go-cmp/cmp"`, "may not import github.com/google/go-cmp/cmp"},
		{"cm/x_test.go", `import "github.com/google/go-cmp/cmp"`, ""},
		{"cm/x_test.go", `import "unsafe"`, ""},
		{"cm/x_test.go", `import "example.com/x"`, "may not import example.com/x"},
		{"abi/x.go", `import "purerdma/internal/leak"`, "abi may not import internal/leak"},
		{"abi/pointer.go", `import "unsafe"`, ""},
		{"abi/struct.go", `import "unsafe"`, "may not import unsafe"},
		{"ucma/x.go", `import "purerdma/uverbs"`, "ucma may not import uverbs"},
		{"ucma/x.go", `import "purerdma/internal/leak"`, ""},
		{"provider/rxe/x.go", `import "purerdma/verbs"`, "provider/rxe may not import verbs"},
		{"provider/mlx5/x.go", `import "purerdma/provider/rxe"`, "provider/mlx5 may not import provider/rxe"},
		{"verbs/x.go", `import "purerdma/cm"`, "verbs may not import cm"},
		{"cmd/rping/x.go", `import "purerdma/internal/cdev"`, "cmd/rping may not import internal/cdev"},
		{"cmd/rping/x.go", `import "purerdma/cm"`, ""},
		{"test/microvm/qemu/x.go", `import "purerdma/test/microvm/wire"`, ""},
		{"test/microvm/qemu/x.go", `import "purerdma/verbs"`, "test/microvm/qemu may not import verbs"},
		{"util/x.go", ``, "util has no place in the table"},
	} {
		src := "package x\n" + tc.src
		got := strings.Join(violations(tc.file, []byte(src)), "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s with %s:\n%q\nwant %q", tc.file, tc.src, got, tc.want)
		}
	}
}

// violations returns the violations of a file, named relative to the module.
func violations(file string, src []byte) []string {
	dir, name := path.Dir(file), path.Base(file)
	isTest := strings.HasSuffix(name, "_test.go")
	var out []string
	bad := func(format string, args ...any) {
		out = append(out, file+": "+fmt.Sprintf(format, args...))
	}
	r, ok := ruleFor(dir)
	if !ok {
		bad("package %s has no place in the table of rules_test.go", dir)
		return out
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		bad("%v", err)
		return out
	}
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		switch {
		case p == "C":
			bad("cgo")
		case spec.Name != nil && spec.Name.Name == "_":
			bad("blank import of %s", p)
		}
		if !r.allows(dir, name, p) && !(isTest && inTests.allows(dir, name, p)) {
			bad("%s may not import %s", dir, strings.TrimPrefix(p, module+"/"))
		}
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && dir+"/"+name != "verbs/bridge.go" { // see internal/bridge
			bad("init function")
		}
	}
	return out
}

// ruleFor returns the rule of a package, which is its own or the rule of the nearest tree.
func ruleFor(dir string) (rule, bool) {
	if r, ok := rules[dir]; ok {
		return r, true
	}
	for d := dir; d != "."; d = path.Dir(d) {
		if r, ok := trees[d]; ok {
			return r, true
		}
	}
	return rule{}, false
}

// allows reports whether a file of a package may import p.
func (r rule) allows(dir, name, p string) bool {
	ours, isOurs := strings.CutPrefix(p, module+"/")
	first, _, _ := strings.Cut(p, "/")
	switch {
	case p == "unsafe":
		return slices.Contains(r.unsafe, name) || slices.Contains(r.unsafe, "*")
	case isOurs:
		return ours == dir || ours == anywhere && dir != "abi" || matches(r.ours, ours)
	case strings.HasPrefix(p, "golang.org/x/sys/"):
		return r.xsys
	case strings.Contains(first, "."):
		return slices.Contains(r.others, p)
	}
	return true // the standard library
}

// matches reports whether p matches one of the patterns. "x/..." matches x and everything below
// it.
func matches(patterns []string, p string) bool {
	for _, pat := range patterns {
		tree, isTree := strings.CutSuffix(pat, "/...")
		if p == tree || isTree && strings.HasPrefix(p, tree+"/") {
			return true
		}
	}
	return false
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// moduleRoot returns the directory of the main module.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("os.Getwd: %v", err)
	}
	for !isModule(dir) {
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
	return dir
}
