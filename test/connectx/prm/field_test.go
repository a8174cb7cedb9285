// SPDX-License-Identifier: Apache-2.0

package prm

import (
	"bytes"
	"testing"
)

func TestField(t *testing.T) {
	for _, tc := range []struct {
		f    Field
		v    uint64
		want []byte
	}{
		{bits(0, 31, 28), 0xa, []byte{0xa0, 0, 0, 0, 0, 0, 0, 0}},
		{bits(4, 23, 0), 0x123456, []byte{0, 0, 0, 0, 0, 0x12, 0x34, 0x56}},
		{bit(0, 17), 1, []byte{0, 2, 0, 0, 0, 0, 0, 0}},
		{dword(4), 0xdeadbeef, []byte{0, 0, 0, 0, 0xde, 0xad, 0xbe, 0xef}},
		{qword(0), 0x0102030405060708, []byte{1, 2, 3, 4, 5, 6, 7, 8}},
		{bits(0, 11, 6), 0x7f, []byte{0, 0, 0x0f, 0xc0, 0, 0, 0, 0}}, // too large
	} {
		b := make([]byte, 8)
		tc.f.Set(b, tc.v)
		if !bytes.Equal(b, tc.want) {
			t.Errorf("%+v set to %#x is %x, want %x", tc.f, tc.v, b, tc.want)
		}
		full := bytes.Repeat([]byte{0xff}, 8)
		tc.f.Set(full, 0)
		for i := range full {
			full[i] = ^full[i]
		}
		tc.f.Set(full, tc.v)
		if !bytes.Equal(full, tc.want) {
			t.Errorf("%+v touches what is beside it: %x", tc.f, full)
		}
		if got := tc.f.Get(b); got != tc.v&(1<<min(63, tc.f.width)-1) && tc.f.width < 64 || tc.f.width == 64 && got != tc.v {
			t.Errorf("%+v set to %#x reads %#x", tc.f, tc.v, got)
		}
	}
}

func TestReserved(t *testing.T) {
	c := make([]byte, 64)
	EQC.LogEQSize.Set(c, 31)
	EQC.UARPage.Set(c, 1<<24-1)
	if got := Reserved(&EQC, c); got != "" {
		t.Errorf("all of them are fields: %s", got)
	}
	c[0x0c] |= 0x80
	if got := Reserved(&EQC, c); got != "reserved bits 0x80000000 at 0xc" {
		t.Errorf("bit 31 of the size: %q", got)
	}
}
