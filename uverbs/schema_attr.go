// SPDX-License-Identifier: Apache-2.0

package uverbs

import "reflect"

// The constructors of declarations, which follow the macros of the kernel's sources. An attribute
// is required unless optional changes that.

// ptrIn is an input with exactly the bytes of T.
func ptrIn[T any](id uint16, name string) AttrSpec {
	t := reflect.TypeFor[T]()
	return AttrSpec{ID: id, Name: name, Kind: AttrIn, Min: int(t.Size()), Max: int(t.Size()), Required: true, Type: t}
}

// ptrOut is an output with exactly the bytes of T.
func ptrOut[T any](id uint16, name string) AttrSpec {
	s := ptrIn[T](id, name)
	s.Kind = AttrOut
	return s
}

// constIn is a number of an enum, which always has eight bytes.
func constIn(id uint16, name string) AttrSpec { return ptrIn[uint64](id, name) }

// flagsIn is a set of flags, which has four or eight bytes.
func flagsIn(id uint16, name string) AttrSpec {
	s := ptrIn[uint32](id, name)
	s.Max, s.Type = 8, nil
	return s
}

// arrayIn is an input with at least one T, arrayOut an output with any number.
func arrayIn[T any](id uint16, name string) AttrSpec {
	t := reflect.TypeFor[T]()
	return AttrSpec{ID: id, Name: name, Kind: AttrIn, Min: int(t.Size()), Max: maxAttr, Required: true, Type: t}
}

func arrayOut[T any](id uint16, name string) AttrSpec {
	return AttrSpec{ID: id, Name: name, Kind: AttrOut, Max: maxAttr, Required: true, Type: reflect.TypeFor[T]()}
}

// enumIn is an input with one of several forms, which Attr.Elem selects.
func enumIn(id uint16, name string, elems ...reflect.Type) AttrSpec {
	return AttrSpec{ID: id, Name: name, Kind: AttrIn, Max: maxAttr, Required: true, Elems: elems}
}

func obj(id uint16, name string, object uint16) AttrSpec {
	return AttrSpec{ID: id, Name: name, Kind: AttrHandle, Object: object, Required: true}
}

func newObj(id uint16, object uint16) AttrSpec {
	return AttrSpec{ID: id, Name: "handle", Kind: AttrNewHandle, Object: object, Required: true}
}

func fdIn(id uint16, name string) AttrSpec {
	return AttrSpec{ID: id, Name: name, Kind: AttrFD}
}

func newFD(id uint16, name string) AttrSpec {
	return AttrSpec{ID: id, Name: name, Kind: AttrNewFD, Required: true}
}

// optional makes an attribute optional.
func optional(s AttrSpec) AttrSpec {
	s.Required = false
	return s
}

// destroyMethod is a method whose only attribute is the handle of the object to destroy.
func destroyMethod(object, method, id uint16, name, since string) Method {
	return Method{Object: object, ID: method, Name: name, Since: since, Attrs: []AttrSpec{obj(id, "handle", object)}}
}
