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

// kernels returns the golden files, the oldest kernel first. How they are made,
// go doc purerdma/test/abi/gen says.
func kernels(t *testing.T) []*golden.File {
	t.Helper()
	files, err := golden.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 3 {
		t.Fatalf("%d golden files; 6.1, 6.12 and 7 were measured", len(files))
	}
	for _, f := range files {
		if !slices.Equal(f.Arches, []string{"amd64", "arm64"}) {
			t.Errorf("%s is of %v", f.Name(), f.Arches)
		}
	}
	return files
}

// src returns the source of package abi.
func src(t *testing.T) *source.Package {
	t.Helper()
	p, err := source.Load("..")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestStructs compares each struct of each kernel with its mirror, and finds
// those that have none.
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
			t.Errorf("GrewIn has %s, which no golden file has shorter", name)
		}
	}
	for _, m := range mirrors.Table {
		if newest.Inner(m.C) == nil {
			t.Errorf("%s mirrors struct %s, which %s does not have", m.Type.Name(), m.C, newest.Name())
		}
	}
}

// structs returns the structs of a file: those with a name, and those without
// one that mirrors have made of the members of others.
func structs(f *golden.File) []*golden.Struct {
	var out []*golden.Struct
	for _, h := range f.Headers {
		for _, s := range h.Structs {
			// Of other headers, those that a program needs.
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

// TestUnions finds structs inside unions that nothing mirrors, neither a type
// of their own nor fields of the outer mirror.
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

// TestConstants compares each enumerator and each macro of each kernel with the
// constant of the same name, and finds those that have none.
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
					t.Errorf("%s: %s of %s is missing", f.Name(), c.Name, h.Name)
				case ours.Value.Cmp(c.Value) != 0:
					t.Errorf("%s is %v, in %s %v", c.Name, ours.Value, f.Name(), c.Value)
				}
			}
			for _, m := range h.Macros {
				if _, ok := leftOut[m]; !ok {
					t.Errorf("%s: macro %s of %s is missing", f.Name(), m, h.Name)
				}
				delete(left, m)
			}
		}
		t.Logf("%s: %d constants", f.Name(), n)
	}
	for name := range left {
		t.Errorf("leftOut has %s, which no golden file has", name)
	}
}

// TestNothingInvented finds constants in the kernel's spelling that no kernel
// has.
func TestNothingInvented(t *testing.T) {
	in := names(kernels(t))
	for name := range src(t).Consts {
		if name != strings.ToUpper(name) || in[name] != "" {
			continue
		}
		if _, ok := notMeasured[name]; !ok {
			t.Errorf("%s is in no golden file, and not in notMeasured", name)
		}
	}
	for name := range notMeasured {
		if src(t).Consts[name] == nil || in[name] != "" {
			t.Errorf("notMeasured has %s, which is not there or has been measured", name)
		}
	}
}

// names returns the oldest kernel that has a name.
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

// TestSince holds the comments that say since which kernel there is something
// against the golden files.
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
			t.Errorf("the comment of %s says since Linux %q, the oldest golden file that has %s is of %q", goName, comment, cName, want)
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

// TestTable finds a table of mirrors that is not of the comments as they are.
func TestTable(t *testing.T) {
	want, err := src(t).Table()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", source.TableFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date: go run ./test/abi/gen -mirrors", source.TableFile)
	}
}
