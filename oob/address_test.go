// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"purerdma/verbs"
)

var sample = Address{LID: 0x1c, QPN: 0x11, PSN: 0xabcdef, GID: verbs.GID(netip.MustParseAddr("::ffff:10.8.0.1").As16())}

// sampleWire is the encoding of sample as sent by ibv_rc_pingpong.
const sampleWire = "001c:000011:abcdef:00000000000000000000ffff0a080001\x00"

func TestAddress(t *testing.T) {
	if got := string(sample.append(nil)); got != sampleWire {
		t.Errorf("append = %q, want %q", got, sampleWire)
	}
	for _, wire := range []string{sampleWire, strings.ToUpper(sampleWire)} {
		if a, err := ParseAddress([]byte(wire)); a != sample || err != nil {
			t.Errorf("ParseAddress(%q) = %v, %v, want %v", wire, a, err, sample)
		}
	}
	if got, want := sample.String(), "LID 0x001c, QPN 0x000011, PSN 0xabcdef, GID ::ffff:10.8.0.1"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	for _, bad := range []string{
		"", sampleWire[:AddressLen-1], sampleWire + "0", strings.Replace(sampleWire, ":", "0", 1), strings.Replace(sampleWire, "c:", "g:", 1),
		strings.Replace(sampleWire, ":0000", ":-001", 1), strings.Replace(sampleWire, ":abc", ": bc", 1),
		strings.Replace(sampleWire, "ffff", "fff ", 1), strings.Replace(sampleWire, "\x00", "\n", 1), strings.Replace(sampleWire, "001c", "0x1c", 1),
	} {
		if a, err := ParseAddress([]byte(bad)); !errors.Is(err, syscall.EBADMSG) || a != (Address{}) {
			t.Errorf("ParseAddress(%q) = %v, %v, want EBADMSG", bad, a, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(sampleWire))
	f.Add([]byte("0000:000000:000000:00000000000000000000000000000000\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseAddress(b)
		if err != nil {
			if a != (Address{}) {
				t.Errorf("ParseAddress(%q) = %v with the error %v", b, a, err)
			}
			return
		}
		// Addresses are encoded in small letters.
		if got := string(a.append(nil)); got != strings.ToLower(string(b)) {
			t.Errorf("ParseAddress(%q) encodes as %q", b, got)
		}
		if a.QPN > max24 || a.PSN > max24 {
			t.Errorf("ParseAddress(%q) = %v, which is out of range", b, a)
		}
	})
}
