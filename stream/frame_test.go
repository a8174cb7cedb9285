// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"bytes"
	"testing"
)

// FuzzFrame parses frames, encodes them again and compares the bytes.
func FuzzFrame(f *testing.F) {
	f.Add(Frame(flagFIN, 1, 2, []byte("data")))
	f.Add(make([]byte, frameLen-1))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseFrame(b)
		if err != nil {
			return
		}
		if got := Frame(h.flags, h.sent, h.granted, b[frameLen:]); !bytes.Equal(got, b) {
			t.Errorf("parseFrame(%x) = %+v, which is encoded as %x", b, h, got)
		}
	})
}

// FuzzHello parses hellos and checks their bounds.
func FuzzHello(f *testing.F) {
	f.Add(Hello(1, 4096, 10))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil {
			return
		}
		if h.slot < minSlot || h.slot > maxSlot || h.credits < baseWindow || h.credits > maxWindow {
			t.Errorf("parseHello(%x) = %+v, out of bounds", b, h)
		}
		if again, err := parseHello(h.encode()); again != h || err != nil {
			t.Errorf("parseHello(%+v.encode()) = %+v, %v", h, again, err)
		}
	})
}
