// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// text returns the API of a package, sorted.
func text(pkg *types.Package) []byte {
	w := &writer{pkg: pkg}
	for _, name := range pkg.Scope().Names() {
		if obj := pkg.Scope().Lookup(name); obj.Exported() {
			w.object(obj)
		}
	}
	slices.Sort(w.lines)
	return []byte(strings.Join(w.lines, ""))
}

// writer collects the lines of a package.
type writer struct {
	pkg   *types.Package
	lines []string
}

func (w *writer) add(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format+"\n", args...))
}

// qualifier names other packages by their path within the module, and by their name
// outside of it.
func (w *writer) qualifier(p *types.Package) string {
	if p == w.pkg {
		return ""
	}
	return strings.TrimPrefix(p.Path(), module+"/")
}

func (w *writer) typ(t types.Type) string { return types.TypeString(t, w.qualifier) }

// object adds the lines of a constant, variable, function or type.
func (w *writer) object(obj types.Object) {
	switch obj := obj.(type) {
	case *types.Const:
		w.add("const %s %s = %s", obj.Name(), w.typ(obj.Type()), obj.Val().ExactString())
	case *types.Var:
		w.add("var %s %s", obj.Name(), w.typ(obj.Type()))
	case *types.Func:
		w.add("func %s%s", obj.Name(), w.signature(obj))
	case *types.TypeName:
		if obj.IsAlias() {
			w.add("type %s = %s", obj.Name(), w.typ(types.Unalias(obj.Type())))
			return
		}
		w.named(obj.Type().(*types.Named))
	}
}

// signature returns the parameters and results of a function.
func (w *writer) signature(f *types.Func) string {
	return strings.TrimPrefix(w.typ(f.Signature()), "func")
}

// named adds the lines of a type, with its fields and methods.
func (w *writer) named(t *types.Named) {
	name := t.Obj().Name() + w.parameters(t)
	switch u := t.Underlying().(type) {
	case *types.Struct:
		w.add("type %s struct", name)
		for f := range u.Fields() {
			if f.Embedded() && f.Exported() {
				w.add("type %s struct, embedded %s", name, w.typ(f.Type()))
			} else if f.Exported() {
				w.add("type %s struct, %s %s", name, f.Name(), w.typ(f.Type()))
			}
		}
	case *types.Interface:
		w.add("type %s interface", name)
		for m := range u.Methods() {
			if m.Exported() {
				w.add("type %s interface, %s%s", name, m.Name(), w.signature(m))
			} else {
				w.add("type %s interface, unexported methods", name)
			}
		}
		return
	default:
		w.add("type %s %s", name, w.typ(u))
	}
	values := types.NewMethodSet(t)
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		if !m.Obj().Exported() {
			continue
		}
		receiver := "*" + name
		if values.Lookup(m.Obj().Pkg(), m.Obj().Name()) != nil {
			receiver = name
		}
		w.add("method (%s) %s%s", receiver, m.Obj().Name(), w.signature(m.Obj().(*types.Func)))
	}
}

// parameters returns the type parameters of a generic type.
func (w *writer) parameters(t *types.Named) string {
	var list []string
	for p := range t.TypeParams().TypeParams() {
		list = append(list, p.Obj().Name()+" "+w.typ(p.Constraint()))
	}
	if list == nil {
		return ""
	}
	return "[" + strings.Join(list, ", ") + "]"
}
