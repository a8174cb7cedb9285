// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"purerdma/abi"
)

// Item is one named value of a List. It is logged even if it is zero.
type Item struct {
	Name  string
	Value any
}

// List is an input or a response that is not a struct.
type List []Item

// Handle and FD are numbers of an object and of a file.
type (
	Handle uint64
	FD     int64
)

// String returns the number.
func (h Handle) String() string { return strconv.FormatUint(uint64(h), 10) }

// String returns "fd" and the number.
func (f FD) String() string { return "fd " + strconv.FormatInt(int64(f), 10) }

// Limits of long values in the output.
const (
	maxBytes = 64
	maxItems = 8
)

var (
	pointerType  = reflect.TypeFor[abi.Pointer]()
	gidType      = reflect.TypeFor[[16]byte]()
	stringerType = reflect.TypeFor[fmt.Stringer]()
)

// appendList appends the parts of a command without brackets.
func appendList(b []byte, v any) []byte {
	if v == nil {
		return b
	}
	if l, ok := v.(List); ok {
		for i, it := range l {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(b, it.Name...)
			b = append(b, '=')
			b = appendValue(b, reflect.ValueOf(it.Value))
		}
		return b
	}
	r := reflect.ValueOf(v)
	for r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return b
		}
		r = r.Elem()
	}
	if r.Kind() == reflect.Struct && r.Type() != pointerType {
		return appendFields(b, r)
	}
	return appendValue(b, r)
}

// appendFields appends the fields that are not zero, and all handles, because zero is a valid
// handle.
func appendFields(b []byte, v reflect.Value) []byte {
	first := true
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || v.Field(i).IsZero() && (!strings.HasSuffix(f.Name, "Handle") || f.Type.Size() != 4) {
			continue
		}
		if !first {
			b = append(b, ", "...)
		}
		first = false
		b = append(b, f.Name...)
		b = append(b, '=')
		b = appendField(b, f.Name, v.Field(i))
	}
	return b
}

// appendField appends a field in the form that its name requires, for sets of bits and addresses.
func appendField(b []byte, name string, v reflect.Value) []byte {
	switch {
	case v.CanUint() && (strings.HasSuffix(name, "Mask") || strings.HasSuffix(name, "Flags")):
		return append(append(b, "0x"...), strconv.FormatUint(v.Uint(), 16)...)
	case v.Type() == gidType && strings.HasSuffix(name, "GID"):
		return append(b, netip.AddrFrom16(v.Interface().([16]byte)).String()...)
	}
	return appendValue(b, v)
}

func appendValue(b []byte, v reflect.Value) []byte {
	switch {
	case !v.IsValid():
		return append(b, "nil"...)
	case v.Type() == pointerType:
		if v.IsZero() {
			return append(b, "NULL"...)
		}
		return append(b, "ptr"...)
	case v.Type().Implements(stringerType) && v.CanInterface() && !(v.Kind() == reflect.Pointer && v.IsNil()):
		return append(b, v.Interface().(fmt.Stringer).String()...)
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		// Keys, masks and addresses are larger than counters.
		if u := v.Uint(); u >= 1<<16 {
			return append(append(b, "0x"...), strconv.FormatUint(u, 16)...)
		}
		return strconv.AppendUint(b, v.Uint(), 10)
	case reflect.String:
		return strconv.AppendQuote(b, v.String())
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, "nil"...)
		}
		return appendValue(b, v.Elem())
	case reflect.Struct:
		return append(appendFields(append(b, '{'), v), '}')
	case reflect.Array, reflect.Slice:
		return appendArray(b, v)
	}
	return append(b, '?')
}

func appendArray(b []byte, v reflect.Value) []byte {
	n := v.Len()
	if v.Type().Elem().Kind() == reflect.Uint8 {
		raw := make([]byte, min(n, maxBytes))
		for i := range raw {
			raw[i] = byte(v.Index(i).Uint())
		}
		b = append(b, hex.EncodeToString(raw)...)
		if n > maxBytes {
			b = fmt.Appendf(b, "...(%d bytes)", n)
		}
		return b
	}
	b = append(b, '[')
	for i := range min(n, maxItems) {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendValue(b, v.Index(i))
	}
	if n > maxItems {
		b = fmt.Appendf(b, ", ... %d more", n-maxItems)
	}
	return append(b, ']')
}
