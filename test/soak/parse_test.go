// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"bytes"
	"encoding/binary"
	"testing"

	"purerdma/verbs"
)

// FuzzParse checks that a peer's input is either rejected, or decoded to a value that encodes
// to the input.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add(hello{1<<32 - 1, 1<<32 - 1, verbs.RemoteMemory{Addr: 1<<64 - 1, RKey: 1<<32 - 1}}.bytes())
	b := make([]byte, headerLen+7)
	h := header{kind: kindOffer, a: 1<<64 - 1, length: 7}
	h.put(b)
	f.Add(b)
	f.Add(b[:headerLen])
	binary.LittleEndian.PutUint32(b[56:], 1<<32-1)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := parseHello(b); err == nil && !bytes.HasPrefix(b, h.bytes()) {
			t.Errorf("parseHello(%x) = %+v", b, h)
		}
		if h, _, err := parse(b); err == nil && headerLen+h.length != len(b) {
			t.Errorf("parse(%x) = %+v", b, h)
		}
	})
}
