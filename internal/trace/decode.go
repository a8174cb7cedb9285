// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/binary"
	"reflect"

	"purerdma/abi"
)

// Decode makes a value of type t, an integer or a struct of package abi, of its bytes. Missing
// bytes are zero, and excess bytes are ignored. Addresses are not followed. A pointer is reduced to
// null or not null.
func Decode(t reflect.Type, b []byte) any {
	v := reflect.New(t).Elem()
	decode(v, b)
	return v.Interface()
}

// DecodeAll makes a slice of as many values of type t as b holds.
func DecodeAll(t reflect.Type, b []byte) any {
	size := int(t.Size())
	list := reflect.MakeSlice(reflect.SliceOf(t), len(b)/size, len(b)/size)
	for i := range list.Len() {
		decode(list.Index(i), b[i*size:(i+1)*size])
	}
	return list.Interface()
}

func decode(v reflect.Value, b []byte) {
	if v.Type() == pointerType {
		for _, c := range b[:min(len(b), 8)] {
			if c != 0 {
				v.Set(reflect.ValueOf(abi.NewPointer(new(byte))))
				return
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(number(b, int(v.Type().Size())))
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(number(b, int(v.Type().Size()))) << (64 - v.Type().Bits()) >> (64 - v.Type().Bits()))
	case reflect.Array:
		size := int(v.Type().Elem().Size())
		for i := range v.Len() {
			decode(v.Index(i), from(b, i*size))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				decode(v.Field(i), from(b, int(f.Offset)))
			}
		}
	}
}

// from returns b[n:], or nothing if b is shorter.
func from(b []byte, n int) []byte { return b[min(n, len(b)):] }

// number reads an integer of size bytes. Missing bytes are zero.
func number(b []byte, size int) uint64 {
	var raw [8]byte
	copy(raw[:size], b)
	switch size {
	case 1:
		return uint64(raw[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(raw[:]))
	case 4:
		return uint64(binary.NativeEndian.Uint32(raw[:]))
	}
	return binary.NativeEndian.Uint64(raw[:])
}
