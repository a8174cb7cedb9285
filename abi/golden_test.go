// SPDX-License-Identifier: Apache-2.0

package abi_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"purerdma/test/abi/golden"
	"purerdma/test/abi/mirrors"
	"purerdma/test/abi/source"
)

// kernels returns the golden files, the oldest kernel first. The doc comment of package
// purerdma/test/abi/gen describes how the files are generated.
func kernels(t *testing.T) []*golden.File {
	t.Helper()
	files, err := golden.ReadDir("testdata")
	if err != nil {
		t.Fatalf("golden.ReadDir: %v", err)
	}
	if len(files) < 3 {
		t.Fatalf("ReadDir = %d golden files, want at least 3 (Linux 6.1, 6.12 and 7)", len(files))
	}
	for _, f := range files {
		if !slices.Equal(f.Arches, []string{"amd64", "arm64"}) {
			t.Errorf("%s: architectures %v, want amd64 and arm64", f.Name(), f.Arches)
		}
	}
	return files
}

// src returns the source of package abi.
func src(t *testing.T) *source.Package {
	t.Helper()
	p, err := source.Load("..")
	if err != nil {
		t.Fatalf("source.Load: %v", err)
	}
	return p
}

// TestStructs compares each struct of each kernel with its mirror, and finds structs without a
// mirror.
func TestStructs(t *testing.T) {
	files := kernels(t)
	newest := files[len(files)-1]
	byC := mirrors.ByC()
	grew := map[string]bool{}
	for _, f := range files {
		n := 0
		for _, s := range structs(f) {
			typ, ok := byC[mirrors.CName(s.Name)]
			if !ok {
				t.Errorf("%s: struct %s has no mirror", f.Name(), s.Name)
				continue
			}
			n++
			if typ.Size() > uintptr(s.Size) {
				grew[s.Name] = true
			}
			for _, b := range mirrors.Against(f.Kernel(), s, typ) {
				t.Errorf("%s: %s", f.Name(), b)
			}
		}
		t.Logf("%s: %d structs", f.Name(), n)
	}
	for name := range mirrors.GrewIn {
		if !grew[name] {
			t.Errorf("GrewIn lists %s, which is shorter in no golden file", name)
		}
	}
	for _, m := range mirrors.Table {
		if newest.Inner(m.C) == nil {
			t.Errorf("%s mirrors struct %s, which %s does not have", m.Type.Name(), m.C, newest.Name())
		}
	}
}

// structs returns the structs of a file that need mirrors: each named struct, and each nameless
// struct whose members a mirror combines.
func structs(f *golden.File) []*golden.Struct {
	var out []*golden.Struct
	for _, h := range f.Headers {
		for _, s := range h.Structs {
			// From the other headers, only the structs that a program needs.
			if s.Members != nil || mirrors.ByC()[s.Name] != nil {
				out = append(out, s)
			}
		}
	}
	for _, m := range mirrors.Table {
		if s := f.Inner(m.C); s != nil && strings.Contains(m.C, ".") {
			out = append(out, s)
		}
	}
	return out
}

// TestUnions finds structs inside unions that have no mirror, neither a type of their own nor
// fields of the outer mirror.
func TestUnions(t *testing.T) {
	files := kernels(t)
	byC := mirrors.ByC()
	for _, s := range structs(files[len(files)-1]) {
		if strings.Contains(s.Name, ".") {
			continue
		}
		inner(s.Name, s.Members, func(path string, m golden.Member) {
			if _, ok := sameBytes[path]; ok || m.Type != "struct" || m.Size == 0 || byC[path] != nil {
				return
			}
			for _, leaf := range m.Members {
				if !hasField(byC[s.Name], leaf.Offset, leaf.Size) {
					t.Errorf("struct %s has no mirror, and %v has no field for its %s", path, byC[s.Name], leaf.Name)
				}
			}
		})
	}
}

// inner calls f for every member inside others.
func inner(path string, ms []golden.Member, f func(path string, m golden.Member)) {
	for _, m := range ms {
		p := path + "." + m.Label()
		f(p, m)
		inner(p, m.Members, f)
	}
}

func hasField(typ reflect.Type, offset, size int64) bool {
	for i := range typ.NumField() {
		f := typ.Field(i)
		if int64(f.Offset) == offset && int64(f.Type.Size()) == size {
			return true
		}
	}
	return false
}

// TestConstants compares each enumerator and each macro of each kernel with the constant of the
// same name, and finds names without a constant.
func TestConstants(t *testing.T) {
	p := src(t)
	left := maps.Clone(leftOut)
	for _, f := range kernels(t) {
		n := 0
		for _, h := range f.Headers {
			consts := slices.Clone(h.Defines)
			for _, e := range h.Enums {
				consts = append(consts, e.Consts...)
			}
			for _, c := range consts {
				if _, ok := leftOut[c.Name]; ok {
					delete(left, c.Name)
					continue
				}
				n++
				switch ours := p.Consts[c.Name]; {
				case ours == nil:
					t.Errorf("%s: %s of %s has no constant", f.Name(), c.Name, h.Name)
				case ours.Value.Cmp(c.Value) != 0:
					t.Errorf("%s = %v, want %v as in %s", c.Name, ours.Value, c.Value, f.Name())
				}
			}
			for _, m := range h.Macros {
				if _, ok := leftOut[m]; !ok {
					t.Errorf("%s: macro %s of %s has no constant", f.Name(), m, h.Name)
				}
				delete(left, m)
			}
		}
		t.Logf("%s: %d constants", f.Name(), n)
	}
	for name := range left {
		t.Errorf("leftOut lists %s, which is in no golden file", name)
	}
}

// TestConstantsExist finds constants in the kernel's spelling that no kernel
// has.
func TestConstantsExist(t *testing.T) {
	in := names(kernels(t))
	for name := range src(t).Consts {
		if name != strings.ToUpper(name) || in[name] != "" {
			continue
		}
		if _, ok := notMeasured[name]; !ok {
			t.Errorf("%s is neither in a golden file nor in notMeasured", name)
		}
	}
	for name := range notMeasured {
		if src(t).Consts[name] == nil || in[name] != "" {
			t.Errorf("notMeasured lists %s, which package abi lacks or a golden file contains", name)
		}
	}
}

// names returns the oldest kernel that defines each name.
func names(files []*golden.File) map[string]string {
	first := map[string]string{}
	for _, f := range slices.Backward(files) {
		for _, h := range f.Headers {
			for _, c := range h.Defines {
				first[c.Name] = f.Kernel()
			}
			for _, e := range h.Enums {
				for _, c := range e.Consts {
					first[c.Name] = f.Kernel()
				}
			}
			for _, s := range h.Structs {
				first[s.Name] = f.Kernel()
			}
		}
		for _, m := range mirrors.Table {
			if f.Inner(m.C) != nil {
				first[m.C] = f.Kernel()
			}
		}
	}
	return first
}

// TestSince compares the "since Linux" comments with the golden files.
func TestSince(t *testing.T) {
	files := kernels(t)
	first := names(files)
	for old, now := range mirrors.Renamed {
		first[now] = first[old]
	}
	oldest := files[0].Kernel()
	check := func(goName, cName, comment string) {
		want := first[cName]
		if want == oldest {
			want = ""
		}
		if comment != want {
			t.Errorf("the comment of %s: since Linux %q, but the oldest golden file with %s is of %q", goName, comment, cName, want)
		}
	}
	p := src(t)
	for name, c := range p.Consts {
		if first[name] != "" {
			check(name, name, c.Since)
		}
	}
	for _, m := range p.Mirrors {
		check(m.Go, m.C, m.Since)
	}
}

// TestTable fails if the table of mirrors is out of date with the comments.
func TestTable(t *testing.T) {
	want, err := src(t).Table()
	if err != nil {
		t.Fatalf("Table: %v", err)
	}
	got, err := os.ReadFile(filepath.Join("..", source.TableFile))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date: go run ./test/abi/gen -mirrors", source.TableFile)
	}
}
