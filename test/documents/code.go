// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
)

// code returns a Go file without its license, or one function, method ("T.M") or type of
// it, as a code block.
func code(module fs.FS, file, name string) (string, error) {
	src, err := fs.ReadFile(module, file)
	if err != nil {
		return "", err
	}
	text := string(src)
	if name == "" {
		if strings.HasPrefix(text, "// SPDX") {
			_, text, _ = strings.Cut(text, "\n\n")
		}
	} else if text, err = declaration(text, name); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return "\n```go\n" + strings.TrimRight(text, "\n") + "\n```\n\n", nil
}

// declaration returns the source of a top-level declaration with its comment.
func declaration(src, name string) (string, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	for _, d := range f.Decls {
		var doc *ast.CommentGroup
		found := false
		switch d := d.(type) {
		case *ast.FuncDecl:
			doc, found = d.Doc, receiver(d)+d.Name.Name == name
		case *ast.GenDecl:
			doc = d.Doc
			for _, spec := range d.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					found = found || spec.Name.Name == name
				}
			}
		}
		if found {
			start := d.Pos()
			if doc != nil {
				start = doc.Pos()
			}
			return src[fset.Position(start).Offset:fset.Position(d.End()).Offset], nil
		}
	}
	return "", fmt.Errorf("no %s", name)
}

// receiver returns the type of a method's receiver and a dot, or nothing for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name + "."
	}
	return ""
}
