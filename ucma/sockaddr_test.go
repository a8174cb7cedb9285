// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

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
		want := IP(netip.MustParseAddrPort(tc.addr))
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
	if _, _, err := EncodeSockaddr(Addr{}); err == nil {
		t.Error("the zero address was encoded")
	}
	if _, _, err := EncodeSockaddr(IP(netip.MustParseAddrPort("[fe80::1%no-such-interface]:1"))); err == nil {
		t.Error("an unknown zone was encoded")
	}
}

// testIBAddr is what librdmacm makes of the GID fe80::2:c903:0:1 and port 7471 in
// RDMA_PS_TCP, with a flow label and a scope.
var testIBAddr = IBAddr{
	PKey:          0xffff,
	FlowInfo:      0x12345,
	GID:           netip.MustParseAddr("fe80::2:c903:0:1").As16(),
	ServiceID:     0x1061d2f,
	ServiceIDMask: 0xffffffffffffffff,
	ScopeID:       3,
}

// TestSockaddrIB: the commands that take any address carry struct sockaddr_ib,
// all of it in network byte order but the family and the scope. That these are
// rdma-core's bytes is for test/wire to show.
func TestSockaddrIB(t *testing.T) {
	const want = "1b00ffff00012345fe800000000000000002c903000000010000000001061d2fffffffffffffffff0300000000000000"
	dst := Addr{IB: testIBAddr}
	src := Addr{IB: IBAddr{PKey: 0x8001}}
	for _, tc := range []struct {
		name           string
		call           func(f *File) error
		size           int // of the frame
		sizeAt, addrAt int
	}{
		{"BIND", func(f *File) error { return f.Bind(1, dst) }, 8 + 136, 8 + 4, 8 + 8},
		{"RESOLVE_ADDR", func(f *File) error { return f.ResolveAddr(1, src, dst, time.Second) }, 8 + 272, 8 + 10, 8 + 16 + 128},
		{"JOIN_MCAST", func(f *File) error { _, err := f.JoinMcast(1, 2, dst, 0); return err }, 8 + 152, 8 + 20, 8 + 24},
	} {
		dev := &recorder{}
		if err := tc.call(New(dev)); err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		b := dev.frames[0]
		if len(b) != tc.size || binary.NativeEndian.Uint16(b[tc.sizeAt:]) != 48 {
			t.Errorf("%s: %d bytes, address of %d", tc.name, len(b), binary.NativeEndian.Uint16(b[tc.sizeAt:]))
		}
		if got := hex.EncodeToString(b[tc.addrAt:][:48]); got != want {
			t.Errorf("%s: the address is %s, want %s", tc.name, got, want)
		}
		if rest := b[tc.addrAt+48:][:128-48]; len(bytes.Trim(rest, "\x00")) != 0 {
			t.Errorf("%s: bytes after the address: %x", tc.name, rest)
		}
	}
	sa, size, err := EncodeSockaddr(dst)
	if err != nil || size != 48 {
		t.Fatal(size, err)
	}
	if got, ok := DecodeSockaddr(&sa); !ok || got != dst {
		t.Errorf("decoded as %v, %v", got, ok)
	}
	if s := dst.IB.String(); s != "ib[fe80::2:c903:0:1]:0x1061d2f" || dst.IB.Port() != 7471 {
		t.Errorf("%s, port %d", s, dst.IB.Port())
	}
}

// FuzzDecodeSockaddr: whatever the kernel writes is decoded or refused, and what
// is decoded can be sent back.
func FuzzDecodeSockaddr(f *testing.F) {
	for _, s := range []string{"10.8.0.1:7471", "[fd00::1]:1", "[fe80::1%3]:1"} {
		sa, _, _ := EncodeSockaddr(IP(netip.MustParseAddrPort(s)))
		f.Add(sa[:])
	}
	ib, _, _ := EncodeSockaddr(Addr{IB: testIBAddr})
	f.Add(ib[:])
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
		ev := new(Event)
		ev.resp = resp
		ev.decode()
		conn, ud := ev.Conn(), ev.UD()
		if ev.UID != resp.UID || uint32(ev.Status) != resp.Status {
			t.Fatal("fields moved")
		}
		_, _ = conn.PrivateDataLen, ud.QPNum
	})
}
