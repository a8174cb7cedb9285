// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// source contains the declarations of the module's packages, by their directory.
type source map[string]*pkg

// pkg contains the declarations of one package.
type pkg struct {
	symbols map[string]bool            // such as "Dial", "ID", "ID.Connect", "Event.Status".
	embeds  map[string][]string        // types that a struct embeds, such as "Conn" or "streamconn.Conn".
	aliases map[string]string          // aliases of types, such as "provider.SendWR".
	tests   map[string]map[string]bool // the string literals in each test
}

// readSource reads every Go file of the module, for any system.
func readSource(t *testing.T, root string) source {
	t.Helper()
	src := source{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin" || isModule(file)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return src.add(filepath.ToSlash(rel), text)
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
	return src
}

// add reads one file, named relative to the module.
func (src source) add(file string, text []byte) error {
	f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	p := src[path.Dir(file)]
	if p == nil {
		p = &pkg{symbols: map[string]bool{}, embeds: map[string][]string{}, aliases: map[string]string{}, tests: map[string]map[string]bool{}}
		src[path.Dir(file)] = p
	}
	isTest := strings.HasSuffix(file, "_test.go")
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.addFunc(d, isTest)
		case *ast.GenDecl:
			if !isTest {
				p.addDecl(d)
			}
		}
	}
	return nil
}

func (p *pkg) addFunc(fn *ast.FuncDecl, isTest bool) {
	name := fn.Name.Name
	switch {
	case !isTest && fn.Recv != nil:
		p.symbols[typeName(fn.Recv.List[0].Type)+"."+name] = true
	case !isTest:
		p.symbols[name] = true
	case fn.Recv == nil && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example")) && name != "TestMain":
		literals := map[string]bool{}
		ast.Inspect(fn, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					literals[s] = true
				}
			}
			return true
		})
		p.tests[name] = literals
	}
}

func (p *pkg) addDecl(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			for _, n := range spec.Names {
				p.symbols[n.Name] = true
			}
		case *ast.TypeSpec:
			p.symbols[spec.Name.Name] = true
			var fields *ast.FieldList
			switch typ := spec.Type.(type) {
			case *ast.SelectorExpr:
				if x, ok := typ.X.(*ast.Ident); ok && spec.Assign.IsValid() {
					p.aliases[spec.Name.Name] = x.Name + "." + typ.Sel.Name
				}
				continue
			case *ast.StructType:
				fields = typ.Fields
			case *ast.InterfaceType:
				fields = typ.Methods
			default:
				continue
			}
			for _, f := range fields.List {
				for _, n := range f.Names {
					p.symbols[spec.Name.Name+"."+n.Name] = true
				}
				if len(f.Names) > 0 {
					continue
				}
				if sel, from := typeOfPackage(f.Type); sel != "" {
					p.symbols[spec.Name.Name+"."+sel] = true
					p.embeds[spec.Name.Name] = append(p.embeds[spec.Name.Name], from+"."+sel)
				} else if name := typeName(f.Type); name != "" {
					p.symbols[spec.Name.Name+"."+name] = true
					p.embeds[spec.Name.Name] = append(p.embeds[spec.Name.Name], name)
				}
			}
		}
	}
}

// typeOfPackage returns the name of a type of another package without its pointer, and the name of
// the package. Both are "" for other types.
func typeOfPackage(e ast.Expr) (name, from string) {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if sel, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := sel.X.(*ast.Ident); ok {
			return sel.Sel.Name, x.Name
		}
	}
	return "", ""
}

// typeName returns the name of a type without its pointer and type parameters, or "" for a type
// of another package.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// hasSymbol reports whether a symbol such as "cm.ID.Connect" or "cm.Dial" is declared outside
// of tests.
func (src source) hasSymbol(name string) bool {
	dir, symbol, _ := strings.Cut(name, ".")
	p := src[dir]
	if p == nil || p.has(symbol) {
		return p != nil
	}
	typ, member, _ := strings.Cut(symbol, ".")
	if other, ok := p.aliases[typ]; ok && src.hasSymbol(other+"."+member) {
		return true
	}
	for _, embedded := range p.embeds[typ] {
		if other, ok := p.aliases[embedded]; ok {
			embedded = other
		}
		from, name, foreign := strings.Cut(embedded, ".")
		for dir, other := range src {
			if foreign && path.Base(dir) == from && other.has(name+"."+member) {
				return true
			}
		}
	}
	return false
}

func (p *pkg) has(symbol string) bool {
	if p.symbols[symbol] {
		return true
	}
	typ, member, ok := strings.Cut(symbol, ".")
	if ok {
		for _, embedded := range p.embeds[typ] {
			if p.has(embedded + "." + member) {
				return true
			}
		}
	}
	return false
}

// hasTest reports whether "cm.TestEcho" is a test. For "cm.TestEcho/IPv4" the test must have a
// subtest with that name as a string.
func (src source) hasTest(name string) bool {
	dir, test, _ := strings.Cut(name, ".")
	p := src[dir]
	if p == nil {
		return false
	}
	test, part, hasPart := strings.Cut(test, "/")
	literals, ok := p.tests[test]
	return ok && (!hasPart || literals[part])
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
