// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// onlyHere returns the tests of a package that use nothing of internal/vmtest, directly or through
// other declarations of the test files. Such tests do the same on every kernel, so they run on
// this machine only. A test that calls a method counts as using all methods of that name, so some
// tests run in the virtual machine without need.
func onlyHere(p pkg, tests []string) ([]string, error) {
	uses := map[string]map[string]bool{} // names in the declarations of each name
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse the tests of %s: %w", p.ImportPath, err)
		}
		for _, d := range f.Decls {
			for name, node := range declared(d) {
				if uses[name] == nil {
					uses[name] = map[string]bool{}
				}
				addUses(uses[name], node)
			}
		}
	}
	var here []string
	for _, t := range tests {
		if uses[t] != nil && !reaches(uses, t, path.Base(helper)) {
			here = append(here, t)
		}
	}
	return here, nil
}

// addUses adds the names in a node. The names of methods begin with a dot.
func addUses(names map[string]bool, node ast.Node) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == path.Base(helper) && n.Sel.Name == "Host" {
				return false // a type, which tests of fakes also fill
			}
			names["."+n.Sel.Name] = true
			addUses(names, n.X)
			return false
		case *ast.Ident:
			names[n.Name] = true
		}
		return true
	})
}

// declared returns the nodes of a declaration by the names that they declare. The names of methods
// begin with a dot.
func declared(d ast.Decl) map[string]ast.Node {
	nodes := map[string]ast.Node{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			nodes["."+d.Name.Name] = d
		} else {
			nodes[d.Name.Name] = d
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, id := range s.Names {
					nodes[id.Name] = s
				}
			case *ast.TypeSpec:
				nodes[s.Name.Name] = s
			}
		}
	}
	return nodes
}

// reaches reports whether the declarations of one name lead to another name.
func reaches(uses map[string]map[string]bool, from, to string) bool {
	seen := map[string]bool{from: true}
	for next := []string{from}; len(next) > 0; {
		name := next[len(next)-1]
		next = next[:len(next)-1]
		for used := range uses[name] {
			if used == to {
				return true
			}
			if !seen[used] {
				seen[used] = true
				next = append(next, used)
			}
		}
	}
	return false
}

// exactly returns a pattern that matches the names of tests.
func exactly(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "^(" + strings.Join(names, "|") + ")$"
}
