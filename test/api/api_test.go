// SPDX-License-Identifier: Apache-2.0

package api

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFiles requires that docs/api contains the API of each public package, and no other file. Tests of the other
// modules compare their files.
func TestFiles(t *testing.T) {
	const root = "../.."
	want, err := Files(root)
	if err != nil {
		t.Fatalf("Files: %v", err)
	}
	if len(want) < 10 {
		t.Errorf("%d public packages, want more", len(want))
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Errorf("%v: run make api", err)
		} else if diff := cmp.Diff(strings.Split(string(got), "\n"), strings.Split(string(text), "\n")); diff != "" {
			t.Errorf("%s is out of date: if the change of the API is intended, run make api (-file, +code):\n%s", name, diff)
		}
	}
	for _, m := range Modules {
		want[filepath.Join(Dir, m+".txt")] = []byte{}
	}
	err = filepath.WalkDir(filepath.Join(root, Dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if name, _ := filepath.Rel(root, path); want[name] == nil {
			t.Errorf("%s does not belong to a public package: run make api", name)
		}
		return nil
	})
	if err != nil {
		t.Errorf("filepath.WalkDir: %v", err)
	}
}

// TestText shows the line of each kind of declaration.
func TestText(t *testing.T) {
	const source = `package p

import "time"

const A, b = 1 << 3, 2
const Name = "n"

type Flags uint8

const Set Flags = 4

var Err error
var hidden int

func F(a, b int, rest ...string) (n int, err error) { return 0, nil }
func g() {}

type S struct {
	T
	inner
	Wait   time.Duration
	hidden int
}

func (s *S) Change()  {}
func (s S) Read() int { return 0 }
func (s S) quiet()    {}

type T struct{}
type inner struct{}

func (inner) Promoted() {}

type I interface {
	M(S) *T
	sealed()
}

type Pair[K comparable, V any] struct{ Key K }

type Other = inner
type Func func(int) bool
`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, 0)
	if err != nil {
		t.Fatalf("parser.ParseFile: %v", err)
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg, err := conf.Check(module+"/p", fset, []*ast.File{file}, nil)
	if err != nil {
		t.Fatalf("conf.Check: %v", err)
	}
	const want = `const A untyped int = 8
const Name untyped string = "n"
const Set Flags = 4
func F(a int, b int, rest ...string) (n int, err error)
method (*S) Change()
method (S) Promoted()
method (S) Read() int
type Flags uint8
type Func func(int) bool
type I interface
type I interface, M(S) *T
type I interface, unexported methods
type Other = inner
type Pair[K comparable, V any] struct
type Pair[K comparable, V any] struct, Key K
type S struct
type S struct, Wait time.Duration
type S struct, embedded T
type T struct
var Err error
`
	if diff := cmp.Diff(want, string(text(pkg))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
