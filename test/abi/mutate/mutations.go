// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
)

// A mutation is one change. It replaces the bytes of file between from and to with text.
type mutation struct {
	file        string // relative to the module
	from, to    int
	text        string
	where, what string
}

// target is a struct or a constant that can be changed.
type target struct {
	file  string
	name  string
	spec  *ast.StructType // for a struct
	value ast.Expr        // for a constant
}

// mutations returns changes of n structs and of n constants.
func mutations(dir string, r *rand.Rand, n int) ([]mutation, error) {
	fset := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "abi/*.go"))
	if err != nil {
		return nil, err
	}
	var structs, consts []target
	for _, name := range names {
		base := filepath.Base(name)
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(base, "pointer") || base == "socket.go" {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.GenDecl); ok {
				s, c := targets("abi/"+base, d)
				structs, consts = append(structs, s...), append(consts, c...)
			}
		}
	}
	var ms []mutation
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	for _, i := range r.Perm(len(structs))[:n] {
		ms = append(ms, changeStruct(structs[i], r, at))
	}
	for _, i := range r.Perm(len(consts))[:n] {
		c := consts[i]
		to := at(c.value.End())
		ms = append(ms, mutation{file: c.file, from: to, to: to, text: " + 1", where: c.name, what: "1 more"})
	}
	return ms, nil
}

// targets returns the structs and the constants of a declaration. If a later constant has no value of its own,
// a change of the first constant also changes the later one.
func targets(file string, d *ast.GenDecl) (structs, consts []target) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if s, ok := spec.Type.(*ast.StructType); ok {
				structs = append(structs, target{file: file, name: spec.Name.Name, spec: s})
			}
		case *ast.ValueSpec:
			if d.Tok == token.CONST && len(spec.Values) == 1 {
				consts = append(consts, target{file: file, name: spec.Names[0].Name, value: spec.Values[0]})
			}
		}
	}
	return structs, consts
}

// changeStruct changes a struct in one of the possible ways. It adds a byte before a field, or makes a
// field a byte longer or shorter. Or it moves a byte between neighbours, or swaps the names of two neighbours.
func changeStruct(t target, r *rand.Rand, at func(token.Pos) int) mutation {
	fields := t.spec.Fields.List[1:] // after structs.HostLayout
	i := r.IntN(len(fields))
	f := fields[i]
	name := f.Names[0].Name
	replace := func(from, to ast.Node, what, format string, args ...any) mutation {
		return mutation{
			file: t.file, where: t.name, what: what,
			from: at(from.Pos()), to: at(to.End()), text: fmt.Sprintf(format, args...),
		}
	}
	before := replace(f, f, "a byte before "+name, "_ uint8\n\t")
	before.to = before.from
	ways := []mutation{before}
	size := width(f.Type)
	if size > 1 {
		to := size + []int{-1, 1}[r.IntN(2)]
		what := fmt.Sprintf("%s of %d bytes instead of %d", name, to, size)
		ways = append(ways, replace(f.Type, f.Type, what, "[%d]uint8", to))
	}
	if i+1 == len(fields) {
		return ways[r.IntN(len(ways))]
	}
	next := fields[i+1]
	nextName := next.Names[0].Name
	if nextSize := width(next.Type); size > 1 && nextSize > 0 {
		ways = append(ways, replace(f, next, "a byte of "+name+" to "+nextName,
			"%s [%d]uint8\n\t%s [%d]uint8\n", name, size-1, nextName, nextSize+1))
	}
	if name != "_" && nextName != "_" && sameInteger(f.Type, next.Type) {
		typ := f.Type.(*ast.Ident).Name
		ways = append(ways, replace(f, next, name+" and "+nextName+" the other way round",
			"%s %s\n\t%s %s\n", nextName, typ, name, typ))
	}
	return ways[r.IntN(len(ways))]
}

func sameInteger(a, b ast.Expr) bool {
	x, ok := a.(*ast.Ident)
	y, ok2 := b.(*ast.Ident)
	return ok && ok2 && x.Name == y.Name
}

// width returns the size of an integer or an array of bytes, or 0.
func width(e ast.Expr) int {
	switch e := e.(type) {
	case *ast.Ident:
		return map[string]int{"uint8": 1, "uint16": 2, "uint32": 4, "int32": 4, "uint64": 8}[e.Name]
	case *ast.ArrayType:
		lit, ok := e.Len.(*ast.BasicLit)
		if elem, isIdent := e.Elt.(*ast.Ident); ok && isIdent && elem.Name == "uint8" {
			n, _ := strconv.Atoi(lit.Value)
			return n
		}
	}
	return 0
}
