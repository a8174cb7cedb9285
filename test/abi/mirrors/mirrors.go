// SPDX-License-Identifier: Apache-2.0

// Package mirrors compares the structs of package abi with C structs.
package mirrors

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"purerdma/abi"
	"purerdma/test/abi/golden"
)

// A Mirror is a Go type and the C struct that it mirrors.
type Mirror struct {
	C    string // its name, or a path such as x.wr.rdma for an unnamed struct in it
	Type reflect.Type
}

// ByC returns the mirrors by the names of the C structs.
func ByC() map[string]reflect.Type {
	m := map[string]reflect.Type{}
	for _, e := range Table {
		m[e.C] = e.Type
	}
	return m
}

// Compare compares a mirror with the C struct and returns the differences. Every byte of the mirror must belong
// to a field. Every field must be a C member with equal offset, size and name. An unnamed field must be a
// reserved C member, or padding.
//
// later has the names of fields that are reserved or padding in the C struct, because its kernel is older than the
// mirror.
func Compare(c *golden.Struct, typ reflect.Type, later []string) []string {
	k := comparison{c: c, typ: typ, later: later}
	if size := int64(typ.Size()); size != c.Size {
		k.bad("%d bytes, %d in C", size, c.Size)
	}
	k.fields()
	return k.out
}

// ComparePrefix is Compare for a C struct that has grown in later kernels. It ignores the mirror's fields
// behind the end of the C struct.
func ComparePrefix(c *golden.Struct, typ reflect.Type) []string {
	k := comparison{c: c, typ: typ, prefix: true}
	if size := int64(typ.Size()); size <= c.Size {
		k.bad("%d bytes, %d in C: it has not grown", size, c.Size)
	}
	k.fields()
	return k.out
}

type comparison struct {
	c      *golden.Struct
	typ    reflect.Type
	later  []string
	prefix bool
	out    []string
}

func (k *comparison) bad(format string, args ...any) {
	k.out = append(k.out, fmt.Sprintf("%s (%s): ", k.typ.Name(), k.c.Name)+fmt.Sprintf(format, args...))
}

func (k *comparison) fields() {
	if k.c.Members == nil || k.typ.Kind() == reflect.Array {
		return // only the size of an address from linux/socket.h counts
	}
	if k.typ.Kind() != reflect.Struct {
		k.bad("not a struct")
		return
	}
	if f := k.typ.Field(0); f.Name != "_" || f.Type.PkgPath() != "structs" || f.Type.Name() != "HostLayout" {
		k.bad("does not begin with structs.HostLayout")
	}
	var end uintptr
	for i := range k.typ.NumField() {
		f := k.typ.Field(i)
		if f.Type.Size() == 0 {
			continue
		}
		if k.prefix && int64(f.Offset) >= k.c.Size {
			return
		}
		if f.Offset != end {
			k.bad("%s: padding of %d bytes before it is not explicit", f.Name, f.Offset-end)
		}
		end = f.Offset + f.Type.Size()
		k.field(f)
	}
	if end != k.typ.Size() {
		k.bad("padding of %d bytes at the end is not explicit", k.typ.Size()-end)
	}
}

// reserved matches the C names of bytes without a meaning.
var reserved = regexp.MustCompile(`^(reserved|resv|rsvd|pad|padding|unused)_?\d*$`)

// field searches for the member that f mirrors.
func (k *comparison) field(f reflect.StructField) {
	offset, size := int64(f.Offset), int64(f.Type.Size())
	found, overlaps := find(k.c.Members, offset, size)
	var names []string
	for _, m := range found {
		names = append(names, m.Name)
		switch {
		case f.Name == "_" && reserved.MatchString(m.Name):
			return
		case normal(f.Name) == normal(m.Name):
			if why := k.sameType(f.Type, m); why != "" {
				k.bad("%s: %v, in C %s %s: %s", f.Name, f.Type, m.Type, m.Name, why)
			}
			return
		}
	}
	switch {
	case f.Name == "_" && !overlaps:
	case isLater(k.later, f.Name) && (!overlaps || k.inReserved(offset, size)):
	case len(names) > 0:
		k.bad("%s: at %d, of %d bytes, C has %s", f.Name, offset, size, strings.Join(names, " and "))
	default:
		k.bad("%s: at %d, of %d bytes, C has nothing of this size", f.Name, offset, size)
	}
}

func isLater(later []string, name string) bool {
	for _, l := range later {
		if l == name {
			return true
		}
	}
	return false
}

// inReserved reports whether a reserved C member contains all these bytes.
func (k *comparison) inReserved(offset, size int64) bool {
	for _, m := range k.c.Members {
		if reserved.MatchString(m.Name) && m.Offset <= offset && offset+size <= m.Offset+m.Size {
			return true
		}
	}
	return false
}

// find returns the members at exactly this place, including nested members. It also reports whether any member
// overlaps the place.
func find(ms []golden.Member, offset, size int64) (found []golden.Member, overlaps bool) {
	for _, m := range ms {
		if m.Size == 0 || m.Offset+m.Size <= offset || offset+size <= m.Offset {
			continue
		}
		if m.Offset == offset && m.Size == size {
			found = append(found, m)
		}
		in, over := find(m.Members, offset, size)
		found = append(found, in...)
		// A struct may have holes.
		overlaps = overlaps || over || m.Type != "struct"
	}
	return found, overlaps
}

// normal returns a name in a form that is equal for both languages.
func normal(name string) string {
	return strings.ToLower(strings.ReplaceAll(name, "_", ""))
}

var pointer = reflect.TypeFor[abi.Pointer]()

// address matches the names of members that hold addresses of user memory.
var address = regexp.MustCompile(`^(response|optval|counters_data|mmap_info_addr|(\w+_)?(buf|db)_addr|\w+_ptr|(qbuf|db_record)_va)$`)

// sameType returns the reason why t cannot be the type of m, or "".
func (k *comparison) sameType(t reflect.Type, m golden.Member) string {
	elem, n, isArray := array(m.Type)
	kind, name, _ := strings.Cut(m.Type, " ")
	switch {
	case t == pointer:
		if m.Type != "__u64" && m.Type != "__aligned_u64" {
			return "not the size of an address"
		}
	case address.MatchString(m.Name):
		return "an address has to be a Pointer"
	case isArray && t.Kind() == reflect.Array && t.Name() == "":
		if t.Len() == n {
			return k.sameType(t.Elem(), golden.Member{Name: "element", Size: m.Size / int64(n), Type: elem})
		}
		if !isBytes(t) || strings.HasPrefix(elem, "struct ") {
			return "another length"
		}
	case isArray:
		return "not an array"
	case name != "": // struct x
		if c := nameOf(t); c != name {
			return fmt.Sprintf("the mirror of %q", c)
		}
	case kind == "struct" || kind == "union":
		if t.Kind() != reflect.Array && nameOf(t) == "" {
			return "neither bytes nor a mirror"
		}
	case isBytes(t):
		if !strings.HasPrefix(m.Type, "__be") {
			return "bytes, but not in network order"
		}
	default:
		return scalar(t, m.Type)
	}
	return ""
}

// scalar compares two integers of equal size.
func scalar(t reflect.Type, c string) string {
	signed := strings.HasPrefix(c, "__s") || c == "int"
	switch t.Kind() {
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if signed {
			return "C has a sign"
		}
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if !signed {
			return "C has no sign"
		}
	default:
		return "not an integer"
	}
	return ""
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Array && t.Elem().Kind() == reflect.Uint8
}

// array returns the element type and the length of an array type.
func array(c string) (elem string, n int, ok bool) {
	elem, length, ok := strings.Cut(c, "[")
	if !ok {
		return "", 0, false
	}
	length, more, _ := strings.Cut(length, "]")
	n, err := strconv.Atoi(length)
	return elem + more, n, err == nil && n > 0
}

// nameOf returns the C struct that t mirrors, or "".
func nameOf(t reflect.Type) string {
	for _, e := range Table {
		if e.Type == t {
			return e.C
		}
	}
	return ""
}
