// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A mutation is one change. It replaces the bytes of file between from and to by text.
type mutation struct {
	kind        string
	file        string // relative to the module
	from, to    int
	text        string
	where, what string
}

// files lists the changed files besides the provider's, which contain the data path and its layouts.
var files = []string{"provider/internal/dbrec/*.go", "provider/internal/spin/*.go", "internal/mmio/*_amd64.s"}

// mutations returns all possible changes.
func mutations(root, driver string) ([]mutation, error) {
	var ms []mutation
	for _, pattern := range append([]string{"provider/" + driver + "/*.go"}, files...) {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			// These files are not compiled here.
			if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_race.go") || strings.HasSuffix(name, "_other.go") || strings.HasSuffix(name, "_big.go") {
				continue
			}
			src, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			if strings.HasSuffix(name, ".s") {
				ms = append(ms, assembly(rel, src)...)
				continue
			}
			more, err := goSource(rel, src)
			if err != nil {
				return nil, err
			}
			ms = append(ms, more...)
		}
	}
	return ms, nil
}

// pick chooses n of the matching changes, with equal numbers of all kinds as far as possible.
func pick(ms []mutation, o options) ([]mutation, error) {
	re, err := regexp.Compile(o.match)
	if err != nil {
		return nil, err
	}
	ms = slices.DeleteFunc(ms, func(m mutation) bool { return !re.MatchString(m.kind + ": " + m.where + ": " + m.what) })
	r := rand.New(rand.NewPCG(o.seed, 0))
	r.Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
	if o.n == 0 || o.n >= len(ms) {
		return ms, nil
	}
	byKind := map[string][]mutation{}
	var kinds []string
	for _, m := range ms {
		if byKind[m.kind] == nil {
			kinds = append(kinds, m.kind)
		}
		byKind[m.kind] = append(byKind[m.kind], m)
	}
	slices.Sort(kinds)
	var out []mutation
	for len(out) < o.n {
		for _, k := range kinds {
			if l := byKind[k]; len(l) > 0 && len(out) < o.n {
				out, byKind[k] = append(out, l[0]), l[1:]
			}
		}
	}
	return out, nil
}

// goSource returns the changes of a Go file.
func goSource(file string, src []byte) ([]mutation, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, 0)
	if err != nil {
		return nil, err
	}
	var ms []mutation
	for _, d := range f.Decls {
		name := ""
		if fn, ok := d.(*ast.FuncDecl); ok {
			name = fn.Name.Name
		}
		c := &changer{fset: fset, file: file, src: src, in: name}
		ast.Inspect(d, c.visit)
		ms = append(ms, c.ms...)
	}
	return ms, nil
}

// changer collects the changes of one declaration.
type changer struct {
	fset *token.FileSet
	file string
	src  []byte
	in   string // function
	ms   []mutation
}

func (c *changer) at(p token.Pos) int { return c.fset.Position(p).Offset }

func (c *changer) textOf(n ast.Node) string { return string(c.src[c.at(n.Pos()):c.at(n.End())]) }

// change replaces a node.
func (c *changer) change(kind string, n ast.Node, text string) {
	c.put(kind, n.Pos(), n.End(), text)
}

func (c *changer) put(kind string, from, to token.Pos, text string) {
	old := string(c.src[c.at(from):c.at(to)])
	where := c.in
	if where == "" {
		where = "declaration"
	}
	c.ms = append(c.ms, mutation{
		kind: kind, file: c.file, from: c.at(from), to: c.at(to), text: text,
		where: fmt.Sprintf("%s:%d, %s", filepath.Base(c.file), c.fset.Position(from).Line, where),
		what:  fmt.Sprintf("`%s` becomes `%s`", oneLine(old), oneLine(text)),
	})
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return "nothing"
	}
	return strings.ReplaceAll(s, "|", `\|`)
}

// byteOrder lists the functions that convert the byte order.
var byteOrder = []string{"endian.Big16", "endian.Big32", "endian.Big64"}

// narrower maps types of conversions to smaller types, which are so small that most values do
// not fit.
var narrower = map[string]string{"uint16": "uint8", "uint32": "uint8", "uint64": "uint16"}

func (c *changer) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.BasicLit, *ast.Field:
		return false
	case *ast.ValueSpec:
		c.constants(n)
	case *ast.AssignStmt:
		if n.Tok == token.XOR_ASSIGN {
			c.change("toggle", n, "")
		}
		if word, ok := n.Lhs[0].(*ast.IndexExpr); ok && n.Tok == token.ASSIGN {
			if _, ok := word.Index.(*ast.BasicLit); ok { // index of a block
				c.change("store", n, "")
			}
		}
	case *ast.CallExpr:
		c.call(n)
	case *ast.BinaryExpr:
		c.binary(n)
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok && strings.HasPrefix(c.textOf(call.Fun), "put") {
			c.change("store", n, "")
		}
	}
	return true
}

// constants changes offsets and bits by one.
func (c *changer) constants(n *ast.ValueSpec) {
	for _, v := range n.Values {
		if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.INT && c.in == "" {
			c.change("constant", lit, lit.Value+" + 1")
		}
	}
}

func (c *changer) call(n *ast.CallExpr) {
	name := c.textOf(n.Fun)
	if len(n.Args) != 1 {
		return
	}
	arg := c.textOf(n.Args[0])
	if slices.Contains(byteOrder, name) {
		c.change("byte order", n, "("+arg+")")
	}
	if w := narrower[name]; w != "" {
		if _, ok := n.Args[0].(*ast.BasicLit); !ok {
			c.change("width", n, fmt.Sprintf("%s(%s(%s))", name, w, arg))
		}
	}
}

// bounds maps comparison operators to their replacements.
var bounds = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}

func (c *changer) binary(n *ast.BinaryExpr) {
	x, y := c.textOf(n.X), c.textOf(n.Y)
	lit, isLit := n.Y.(*ast.BasicLit)
	switch n.Op {
	case token.AND, token.AND_NOT:
		c.change("mask", n, "("+x+")")
	case token.OR:
		c.change("bit", n, "("+x+")")
	case token.XOR:
		c.change("toggle", n, "("+x+")")
	case token.SHL, token.SHR:
		if x != "0" {
			c.change("shift", n.Y, "("+y+"+1)")
		}
	case token.ADD, token.SUB:
		if isLit && lit.Kind == token.INT {
			if v, err := strconv.ParseInt(lit.Value, 0, 64); err == nil {
				c.change("off by one", lit, strconv.FormatInt(v+1, 10))
			}
		}
	}
	if op := bounds[n.Op]; op != "" {
		c.put("bound", n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), op)
	}
}

var (
	fence  = regexp.MustCompile(`(?m)^\tSFENCE$`)
	store  = regexp.MustCompile(`(?m)^\tMOV(?:L|Q|UPS) .*, \w*\((?:AX|BX|DI|R8)\).*$`)
	toggle = regexp.MustCompile(`(?m)^\t(?:XOR|ADD)Q [^$\n]*\\$`)
	offset = regexp.MustCompile(`[0-9]+\((?:DI|SI)\)`)
	text   = regexp.MustCompile(`(?m)^TEXT ·(\w+)`)
)

// assembly returns the changes of a file of amd64 assembly, which remove fences and stores, and
// change offsets of a copy.
func assembly(file string, src []byte) []mutation {
	var ms []mutation
	add := func(kind string, from, to int, by string) {
		in := "macro"
		for _, t := range text.FindAllSubmatchIndex(src, -1) {
			if t[0] < from {
				in = string(src[t[2]:t[3]])
			}
		}
		line := 1 + strings.Count(string(src[:from]), "\n")
		ms = append(ms, mutation{
			kind: kind, file: file, from: from, to: to, text: by,
			where: fmt.Sprintf("%s:%d, %s", filepath.Base(file), line, in),
			what:  fmt.Sprintf("`%s` becomes `%s`", oneLine(string(src[from:to])), oneLine(by)),
		})
	}
	for _, m := range fence.FindAllIndex(src, -1) {
		add("barrier", m[0], m[1], "")
	}
	for _, m := range toggle.FindAllIndex(src, -1) {
		add("toggle", m[0], m[1], "\t\\")
	}
	for _, m := range store.FindAllIndex(src, -1) {
		line := string(src[m[0]:m[1]])
		by := ""
		if strings.HasSuffix(line, `\`) {
			by = "\t\\"
		}
		add("store", m[0], m[1], by)
		if o := offset.FindStringIndex(line); o != nil && !strings.HasPrefix(line[o[0]:], "0(") {
			add("offset", m[0]+o[0], m[0]+o[1], "0"+line[strings.Index(line[o[0]:], "(")+o[0]:o[1]])
		}
	}
	return ms
}
