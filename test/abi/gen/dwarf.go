// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"purerdma/test/abi/golden"
)

// A found value has the line of its definition in a header.
type found[T any] struct {
	line int64
	what T
}

// inHeader has the definitions in one header, unsorted.
type inHeader struct {
	enums   []found[golden.Enum]
	structs []found[*golden.Struct]
}

// reader reads the types of an object file.
type reader struct {
	data   *dwarf.Data
	root   string // root directory of the headers
	files  []*dwarf.LineFile
	found  map[string]*inHeader
	opaque map[string]int64 // sizes of the members' structs from other headers
	where  map[string]string
	values map[string]*big.Int // values of macros
}

// readDWARF returns the definitions in the headers below root.
func readDWARF(object, root string, ms []macro) ([]*golden.Header, error) {
	f, err := elf.Open(object)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	r := reader{data: data, root: root, found: map[string]*inHeader{}, opaque: map[string]int64{}, where: map[string]string{}, values: map[string]*big.Int{}}
	if err := r.readAll(); err != nil {
		return nil, err
	}
	return r.headers(ms)
}

// readAll walks the types of the only compilation unit. All C types are at its top level, including nested
// types.
func (r *reader) readAll() error {
	entries := r.data.Reader()
	cu, err := entries.Next()
	if err != nil {
		return err
	}
	lines, err := r.data.LineReader(cu)
	if err != nil {
		return err
	}
	// The list of files is complete at the end of the program.
	for err = nil; err == nil; {
		err = lines.Next(new(dwarf.LineEntry))
	}
	if err != io.EOF {
		return err
	}
	r.files = lines.Files()
	for {
		e, err := entries.Next()
		if err != nil {
			return err
		}
		if e == nil || e.Tag == 0 {
			return nil
		}
		if err := r.entry(e); err != nil {
			return err
		}
		entries.SkipChildren()
	}
}

func (r *reader) entry(e *dwarf.Entry) error {
	switch e.Tag {
	case dwarf.TagStructType, dwarf.TagUnionType, dwarf.TagEnumerationType:
	default:
		return nil
	}
	t, err := r.data.Type(e.Offset)
	if err != nil {
		return err
	}
	if t, ok := t.(*dwarf.StructType); ok && t.Incomplete {
		return nil
	}
	i, _ := e.Val(dwarf.AttrDeclFile).(int64)
	line, _ := e.Val(dwarf.AttrDeclLine).(int64)
	if i <= 0 || int(i) >= len(r.files) {
		return fmt.Errorf("%v: file %d of %d", t, i, len(r.files))
	}
	file := r.files[i].Name
	header := headerOf(file)
	switch t := t.(type) {
	case *dwarf.EnumType:
		r.enum(t, header, line)
	case *dwarf.StructType:
		if header == "" {
			r.where[t.StructName] = strings.TrimPrefix(file, r.root+"/")
			return nil
		}
		if t.StructName == "" {
			return nil // included in the members of this type
		}
		ms, err := r.members(t, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", t.StructName, err)
		}
		h := r.header(header)
		h.structs = append(h.structs, found[*golden.Struct]{line, &golden.Struct{Name: t.StructName, Union: t.Kind == "union", Size: t.ByteSize, Members: ms}})
	}
	return nil
}

func (r *reader) header(name string) *inHeader {
	if r.found[name] == nil {
		r.found[name] = &inHeader{}
	}
	return r.found[name]
}

func (r *reader) enum(t *dwarf.EnumType, header string, line int64) {
	en := golden.Enum{Name: t.EnumName}
	for _, v := range t.Val {
		if name, ok := strings.CutPrefix(v.Name, prefix); ok {
			r.values[name] = value(t, v.Val)
			continue
		}
		en.Consts = append(en.Consts, golden.Const{Name: v.Name, Value: value(t, v.Val)})
	}
	if header != "" {
		h := r.header(header)
		h.enums = append(h.enums, found[golden.Enum]{line, en})
	}
}

// value returns the value of an enumerator. DWARF does not record its sign. The enum is unsigned if it has no
// value below 0.
func value(t *dwarf.EnumType, v int64) *big.Int {
	if v >= 0 || slices.ContainsFunc(t.Val, func(o *dwarf.EnumValue) bool { return o.Val < 0 && o.Val > -1<<31 }) {
		return big.NewInt(v)
	}
	return new(big.Int).SetUint64(uint64(v))
}

// members lists the members of t, which is at offset in the outermost struct.
func (r *reader) members(t *dwarf.StructType, offset int64) ([]golden.Member, error) {
	var ms []golden.Member
	for _, f := range t.Field {
		if f.BitSize != 0 {
			return nil, fmt.Errorf("%s is a bit field", f.Name)
		}
		m := golden.Member{Name: f.Name, Offset: offset + f.ByteOffset, Size: max(f.Type.Size(), 0), Type: r.typeName(f.Type)}
		if inner, ok := f.Type.(*dwarf.StructType); ok && inner.StructName == "" {
			var err error
			if m.Members, err = r.members(inner, m.Offset); err != nil {
				return nil, err
			}
		}
		ms = append(ms, m)
	}
	return ms, nil
}

// typeName spells t as in C.
func (r *reader) typeName(t dwarf.Type) string {
	switch t := t.(type) {
	case *dwarf.StructType:
		if t.StructName == "" {
			return t.Kind
		}
		r.opaque[t.StructName] = t.ByteSize
		return t.Kind + " " + t.StructName
	case *dwarf.ArrayType:
		if t.Count < 0 {
			return r.typeName(t.Type) + "[]"
		}
		return r.typeName(t.Type) + "[" + strconv.FormatInt(t.Count, 10) + "]"
	case *dwarf.EnumType:
		return "enum " + t.EnumName
	}
	return t.String()
}

// headers sorts the found definitions.
func (r *reader) headers(ms []macro) ([]*golden.Header, error) {
	var out []*golden.Header
	for _, name := range golden.Headers {
		in := r.header(name)
		h := &golden.Header{Name: name}
		for _, m := range ms {
			switch v := r.values[m.name]; {
			case m.header != name:
			case !m.value:
				h.Macros = append(h.Macros, m.name+m.params)
			case v == nil:
				return nil, fmt.Errorf("macro %s: no value", m.name)
			default:
				h.Defines = append(h.Defines, golden.Const{Name: m.name, Value: v})
			}
		}
		for _, e := range inOrder(in.enums) {
			h.Enums = append(h.Enums, e.what)
		}
		for _, s := range inOrder(in.structs) {
			h.Structs = append(h.Structs, s.what)
			delete(r.opaque, s.what.Name)
		}
		out = append(out, h)
	}
	return append(out, r.others()...), nil
}

// others returns the structs from other headers, without their members.
func (r *reader) others() []*golden.Header {
	byHeader := map[string]*golden.Header{}
	for name, size := range r.opaque {
		file := r.where[name]
		if byHeader[file] == nil {
			byHeader[file] = &golden.Header{Name: file}
		}
		byHeader[file].Structs = append(byHeader[file].Structs, &golden.Struct{Name: name, Size: size})
	}
	var out []*golden.Header
	for _, h := range byHeader {
		slices.SortFunc(h.Structs, func(a, b *golden.Struct) int { return strings.Compare(a.Name, b.Name) })
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *golden.Header) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func inOrder[T any](fs []found[T]) []found[T] {
	slices.SortStableFunc(fs, func(a, b found[T]) int { return int(a.line - b.line) })
	return fs
}
