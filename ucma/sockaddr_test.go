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
			t.Errorf("EncodeSockaddr(%s) = size %d, %v, want %d, nil", tc.addr, size, err, tc.size)
			continue
		}
		if got := hex.EncodeToString(sa[:size]); got != tc.hex {
			t.Errorf("EncodeSockaddr(%s) = %s, want %s", tc.addr, got, tc.hex)
		}
		if got, ok := DecodeSockaddr(&sa); !ok || got != want {
			t.Errorf("DecodeSockaddr of %s = %v, %v, want %v, true", tc.addr, got, ok, want)
		}
	}
}

func TestEncodeSockaddrErrors(t *testing.T) {
	if _, _, err := EncodeSockaddr(Addr{}); err == nil {
		t.Error("EncodeSockaddr(Addr{}) succeeded")
	}
	if _, _, err := EncodeSockaddr(IP(netip.MustParseAddrPort("[fe80::1%no-such-interface]:1"))); err == nil {
		t.Error("EncodeSockaddr of an address with an unknown zone succeeded")
	}
}

// testIBAddr is the address that librdmacm builds from the GID fe80::2:c903:0:1 and port 7471
// in RDMA_PS_TCP, with a flow label and a scope.
var testIBAddr = IBAddr{
	PKey:          0xffff,
	FlowInfo:      0x12345,
	GID:           netip.MustParseAddr("fe80::2:c903:0:1").As16(),
	ServiceID:     0x1061d2f,
	ServiceIDMask: 0xffffffffffffffff,
	ScopeID:       3,
}

// TestSockaddrIB checks the struct sockaddr_ib in the commands that take any address. All of
// its fields are in network byte order, except the family and the scope. test/wire shows that
// rdma-core writes the same bytes.
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
			t.Errorf("%s: %d bytes with an address of %d, want %d and 48", tc.name, len(b), binary.NativeEndian.Uint16(b[tc.sizeAt:]), tc.size)
		}
		if got := hex.EncodeToString(b[tc.addrAt:][:48]); got != want {
			t.Errorf("%s: address = %s, want %s", tc.name, got, want)
		}
		if rest := b[tc.addrAt+48:][:128-48]; len(bytes.Trim(rest, "\x00")) != 0 {
			t.Errorf("%s: bytes after the address = %x, want zeros", tc.name, rest)
		}
	}
	sa, size, err := EncodeSockaddr(dst)
	if err != nil || size != 48 {
		t.Fatalf("EncodeSockaddr = size %d, %v, want 48, nil", size, err)
	}
	if got, ok := DecodeSockaddr(&sa); !ok || got != dst {
		t.Errorf("DecodeSockaddr = %v, %v, want %v, true", got, ok, dst)
	}
	if s := dst.IB.String(); s != "ib[fe80::2:c903:0:1]:0x1061d2f" || dst.IB.Port() != 7471 {
		t.Errorf("String() = %s, Port() = %d, want ib[fe80::2:c903:0:1]:0x1061d2f, 7471", s, dst.IB.Port())
	}
}

// FuzzDecodeSockaddr checks that any bytes of the kernel are decoded or refused, and that a
// decoded address can be encoded again.
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
			t.Fatalf("EncodeSockaddr(%v), which DecodeSockaddr returned: %v", addr, err)
		}
		if back, _ := DecodeSockaddr(&again); back != addr {
			t.Fatalf("DecodeSockaddr of the encoded %v = %v, want the same address", addr, back)
		}
	})
}

// FuzzDecodeEvent checks that the decoder accepts every event that the kernel may write.
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
			t.Fatalf("UID, status = %d, %d, want %d, %d", ev.UID, ev.Status, resp.UID, resp.Status)
		}
		_, _ = conn.PrivateDataLen, ud.QPNum
	})
}
