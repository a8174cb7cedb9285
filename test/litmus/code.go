// SPDX-License-Identifier: Apache-2.0

package litmus

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Find reports an error unless the function exists below root and contains the texts in order.
func (c Code) Find(root string) error {
	functions, err := Functions(filepath.Join(root, c.File))
	if err != nil {
		return err
	}
	body, ok := functions[c.Function]
	if !ok {
		return fmt.Errorf("%s: no function %s", c.File, c.Function)
	}
	for _, text := range c.Texts {
		_, rest, found := strings.Cut(body, spaced(text))
		if !found {
			return fmt.Errorf("%s: %s: %q is not there, or not in this order", c.File, c.Function, text)
		}
		body = rest
	}
	return nil
}

var space = regexp.MustCompile(`[ \t]+`)

// spaced replaces blanks by single ones.
func spaced(s string) string { return strings.TrimSpace(space.ReplaceAllString(s, " ")) }

// assembly matches the start of a function in an assembly file.
var assembly = regexp.MustCompile(`(?m)^TEXT ·(\w+)\(SB\)`)

// Functions returns the functions of a Go or assembly file, by name. Methods are named as
// Type.Method.
func Functions(file string) (map[string]string, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	if strings.HasSuffix(file, ".s") {
		starts := assembly.FindAllSubmatchIndex(src, -1)
		for i, m := range starts {
			end := len(src)
			if i+1 < len(starts) {
				end = starts[i+1][0]
			}
			out[string(src[m[2]:m[3]])] = spaced(string(src[m[0]:end]))
		}
		return out, nil
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, 0)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := fn.Name.Name
		if fn.Recv != nil {
			t := fn.Recv.List[0].Type
			if star, ok := t.(*ast.StarExpr); ok {
				t = star.X
			}
			if id, ok := t.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		out[name] = spaced(string(src[fset.Position(fn.Pos()).Offset:fset.Position(fn.End()).Offset]))
	}
	return out, nil
}
