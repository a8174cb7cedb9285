// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"bytes"
	"encoding"
	"errors"
	"syscall"
	"testing"

	"purerdma/msg"
	"purerdma/verbs"
)

var (
	_ encoding.BinaryMarshaler   = msg.Token{}
	_ encoding.BinaryAppender    = msg.Token{}
	_ encoding.BinaryUnmarshaler = (*msg.Token)(nil)
)

func TestTokenEncoding(t *testing.T) {
	token := msg.Token{
		RemoteMemory: verbs.RemoteMemory{Addr: 0x0102030405060708, Length: 0x1112131415161718, RKey: 0x21222324},
		Access:       verbs.RemoteWrite,
	}
	const want = "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x15\x16\x17\x18\x21\x22\x23\x24\x02"
	if b, err := token.MarshalBinary(); string(b) != want || err != nil {
		t.Errorf("MarshalBinary() = %x, %v, want %x", b, err, want)
	}
	var got msg.Token
	if err := got.UnmarshalBinary([]byte(want)); got != token || err != nil {
		t.Errorf("UnmarshalBinary() = %+v, %v, want %+v", got, err, token)
	}
	for _, access := range []verbs.Access{0, verbs.LocalWrite, verbs.RemoteRead | verbs.RemoteAtomic} {
		token.Access = access
		if b, err := token.MarshalBinary(); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("MarshalBinary() with rights %v = %x, %v, want %v", access, b, err, syscall.EINVAL)
		}
	}
}

// TestTokenUnmarshal decodes encodings that a hostile peer may send.
func TestTokenUnmarshal(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing":   nil,
		"no rights": make([]byte, msg.TokenLen),
		"rights":    append(make([]byte, msg.TokenLen-1), 4),
		"short":     bytes.Repeat([]byte{1}, msg.TokenLen-1),
		"long":      bytes.Repeat([]byte{1}, msg.TokenLen+1),
		"overflow":  append(bytes.Repeat([]byte{0xff}, msg.TokenLen-1), 1),
	} {
		token := msg.Token{Access: verbs.RemoteRead}
		if err := token.UnmarshalBinary(data); !errors.Is(err, syscall.EINVAL) || token != (msg.Token{Access: verbs.RemoteRead}) {
			t.Errorf("%s: UnmarshalBinary() = %v with %+v, want %v and no change", name, err, token, syscall.EINVAL)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add(append(make([]byte, msg.TokenLen-1), 3))
	f.Fuzz(func(t *testing.T, data []byte) {
		var token msg.Token
		if token.UnmarshalBinary(data) != nil {
			return
		}
		if b, err := token.MarshalBinary(); !bytes.Equal(b, data) || err != nil {
			t.Errorf("MarshalBinary() = %x, %v, want %x", b, err, data)
		}
	})
}
