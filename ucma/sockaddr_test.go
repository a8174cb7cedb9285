// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"purerdma/abi"
)

func TestSockaddr(t *testing.T) {
	for _, tc := range []struct {
		addr string
		size uint16
		hex  string // of the first size bytes, on a little-endian machine
	}{
		{"10.8.0.1:7471", 16, "02001d2f0a0800010000000000000000"},
		{"0.0.0.0:0", 16, "02000000000000000000000000000000"},
		{"[fd00:8::1]:7471", 28, "0a001d2f00000000fd00000800000000000000000000000100000000"},
		{"[fe80::1%3]:1", 28, "0a00000100000000fe80000000000000000000000000000103000000"},
		{"[::ffff:10.8.0.1]:2", 28, "0a0000020000000000000000000000000000ffff0a08000100000000"},
	} {
		want := netip.MustParseAddrPort(tc.addr)
		sa, size, err := EncodeSockaddr(want)
		if err != nil || size != tc.size {
			t.Errorf("%s: size %d, err %v", tc.addr, size, err)
			continue
		}
		if got := hex.EncodeToString(sa[:size]); got != tc.hex {
			t.Errorf("%s: encoded as %s, want %s", tc.addr, got, tc.hex)
		}
		if got, ok := DecodeSockaddr(&sa); !ok || got != want {
			t.Errorf("%s: decoded as %v, %v", tc.addr, got, ok)
		}
	}
}

func TestSockaddrRefusesWhatItCannotSay(t *testing.T) {
	if _, _, err := EncodeSockaddr(netip.AddrPort{}); err == nil {
		t.Error("the zero address was encoded")
	}
	if _, _, err := EncodeSockaddr(netip.MustParseAddrPort("[fe80::1%no-such-interface]:1")); err == nil {
		t.Error("an unknown zone was encoded")
	}
}

// FuzzDecodeSockaddr: whatever the kernel writes is decoded or refused, and what
// is decoded can be sent back.
func FuzzDecodeSockaddr(f *testing.F) {
	for _, s := range []string{"10.8.0.1:7471", "[fd00::1]:1", "[fe80::1%3]:1"} {
		sa, _, _ := EncodeSockaddr(netip.MustParseAddrPort(s))
		f.Add(sa[:])
	}
	f.Add(make([]byte, 128))
	f.Fuzz(func(t *testing.T, b []byte) {
		var sa abi.SockaddrStorage
		copy(sa[:], b)
		addr, ok := DecodeSockaddr(&sa)
		if !ok {
			return
		}
		again, _, err := EncodeSockaddr(addr)
		if err != nil {
			t.Fatalf("%v decoded and not encoded: %v", addr, err)
		}
		if back, _ := DecodeSockaddr(&again); back != addr {
			t.Fatalf("%v came back as %v", addr, back)
		}
	})
}

// FuzzDecodeEvent: no event that the kernel may write breaks the decoder.
func FuzzDecodeEvent(f *testing.F) {
	f.Add(make([]byte, 336))
	full := make([]byte, 336)
	for i := range full {
		full[i] = 0xff
	}
	f.Add(full)
	f.Fuzz(func(t *testing.T, b []byte) {
		var resp abi.UcmEventResp
		copy(abi.Bytes(&resp), b)
		ev := decodeEvent(&resp)
		conn, ud := ev.Conn(), ev.UD()
		if ev.UID != resp.UID || uint32(ev.Status) != resp.Status {
			t.Fatal("fields moved")
		}
		_, _ = conn.PrivateDataLen, ud.QPNum
	})
}
