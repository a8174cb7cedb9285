// SPDX-License-Identifier: Apache-2.0

package addrinfo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/cm"
	"purerdma/test/addrinfo"
	"purerdma/ucma"
	"purerdma/verbs"
)

// goldenResolver resolves the services in the inputs of the golden files as Debian's netbase
// does. It has no host names.
var goldenResolver = &resolver{
	lookupPort: func(_ context.Context, network, service string) (int, error) {
		port, ok := map[string]int{"tcp http": 80, "tcp domain": 53, "udp domain": 53, "udp ntp": 123, "udp tftp": 69}[network+" "+service]
		if !ok {
			return 0, &net.DNSError{Name: service, IsNotFound: true}
		}
		return port, nil
	},
	lookupNetIP: func(_ context.Context, _, host string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Name: host, IsNotFound: true}
	},
	hasIPv6: func() bool { return true },
}

// onlyC contains the inputs that librdmacm accepts and Lookup rejects.
var onlyC = map[string]string{
	"10.8.0.1|65536|flags=0":      "a port has 16 bits",
	"10.8.0.1|4294967376|flags=0": "a port has 16 bits",
}

// TestGolden compares the answers with rdma_getaddrinfo's, byte for byte.
func TestGolden(t *testing.T) {
	if _, err := net.InterfaceByName("lo"); err != nil {
		t.Skip("needs an interface lo")
	}
	addrinfo.Golden(t, "addrinfo", func(t *testing.T, lines iter.Seq2[string, string]) {
		n := 0
		for question, want := range lines {
			n++
			got := goldenAnswer(t, question)
			if why := onlyC[question]; why != "" {
				if !strings.HasPrefix(want, "flags=") || !strings.HasPrefix(got, "eai ") {
					t.Errorf("%s: C returns %s, Lookup %s, which is not the known difference: %s", question, want, got, why)
				}
				continue
			}
			if got != want {
				t.Errorf("%s:\n     C returns %s\nLookup returns %s", question, want, got)
			}
		}
		if n < 600 {
			t.Errorf("golden file has %d questions, want at least 600", n)
		}
	})
}

// goldenAnswer runs Lookup for a question of a golden file. It writes the answer like
// test/addrinfo/gen/testdata/query.c.
func goldenAnswer(t *testing.T, question string) string {
	t.Helper()
	part := strings.Split(question, "|")
	for i, s := range part[:2] {
		if s == "-" {
			part[i] = ""
		}
	}
	info, err := goldenResolver.lookup(context.Background(), part[0], part[1], goldenHints(t, part[2]))
	var code EAI
	var errno syscall.Errno
	switch {
	case errors.As(err, &code):
		return fmt.Sprintf("eai %d", int(code))
	case errors.As(err, &errno):
		return fmt.Sprintf("errno %d", int(errno))
	case err != nil:
		return err.Error()
	}
	return fmt.Sprintf("flags=%d family=%d qp=%d ps=%d src=%s dst=%s srcname=- dstname=- route=0 connect=0",
		info.Flags, info.Family, info.QPType, info.PortSpace, hexAddr(t, info.SrcAddr), hexAddr(t, info.DstAddr))
}

func goldenHints(t *testing.T, s string) *Hints {
	t.Helper()
	if s == "-" {
		return nil
	}
	h := new(Hints)
	for _, field := range strings.Fields(s) {
		key, value, _ := strings.Cut(field, "=")
		n, _ := strconv.Atoi(value)
		b, _ := hex.DecodeString(value)
		var sa abi.SockaddrStorage
		copy(sa[:], b)
		switch key {
		case "flags":
			h.Flags = Flags(n)
		case "family":
			h.Family = Family(n)
		case "qp":
			h.QPType = verbs.QPType(n)
		case "ps":
			h.PortSpace = cm.PortSpace(n)
		case "src":
			h.SrcAddr = cmAddr(&sa)
		case "dst":
			h.DstAddr = cmAddr(&sa)
		default:
			t.Fatalf("hint %q", field)
		}
	}
	return h
}

func hexAddr(t *testing.T, a cm.Addr) string {
	t.Helper()
	if !a.IsValid() {
		return "-"
	}
	sa, size, err := ucma.EncodeSockaddr(ucma.Addr(a))
	if err != nil {
		t.Fatalf("ucma.EncodeSockaddr: %v", err)
	}
	return hex.EncodeToString(sa[:size])
}

func mustAddr(s string) cm.Addr {
	a, err := cm.ParseAddr(s)
	if err != nil {
		panic(err)
	}
	return a
}

func cmAddr(sa *abi.SockaddrStorage) cm.Addr {
	a, _ := ucma.DecodeSockaddr(sa)
	return cm.Addr(a)
}

func TestLookup(t *testing.T) {
	ctx := context.Background()
	info, err := Lookup(ctx, "10.8.0.1", "7471", nil)
	if err != nil || info.DstAddr != mustAddr("10.8.0.1:7471") || info.QPType != verbs.RC || info.PortSpace != cm.PortSpaceTCP {
		t.Errorf("Lookup = %+v, %v, want 10.8.0.1:7471, RC, TCP", info, err)
	}
	// Services and the loopback address come from the system.
	info, err = Lookup(ctx, "", "http", nil)
	if err != nil || !info.DstAddr.Addr().IsLoopback() || info.DstAddr.Port() != 80 {
		t.Errorf("Lookup of service http = %+v, %v, want port 80 of a loopback address", info, err)
	}
	info, err = Lookup(ctx, "localhost", "1", &Hints{Family: IPv4})
	if err != nil || info.DstAddr != mustAddr("127.0.0.1:1") {
		t.Errorf("Lookup = %+v, %v, want 127.0.0.1:1", info, err)
	}
}

func TestLookupErrors(t *testing.T) {
	gid := &Hints{Flags: HasFamily | NumericHost, Family: IB}
	for _, tc := range []struct {
		node, service string
		hints         *Hints
		want          error
		text          string
	}{
		{"", "", nil, syscall.EINVAL, "hints"},
		{"10.8.0.1", "65536", nil, Service, "16 bits"},
		{"10.8.0.1", "7471", gid, AddrFamily, "10.8.0.1"},
		{"rdma.example", "7471", &Hints{Flags: NumericHost}, NoName, `"rdma.example"`},
		{"", "storage", &Hints{Flags: flagSA}, syscall.EOPNOTSUPP, "RAI_SA"},
		{"fe80::1%no-such-if", "1", nil, NoName, "no-such-if"},
	} {
		info, err := Lookup(context.Background(), tc.node, tc.service, tc.hints)
		if info != (Info{}) || !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Lookup(%s, %s) = %v, %v, want %v with %q", tc.node, tc.service, info, err, tc.want, tc.text)
		}
	}
	// The address to listen on for every GID is zero. librdmacm fills it with arbitrary bytes.
	gid.Flags |= Passive
	info, err := Lookup(context.Background(), "", "7471", gid)
	if err != nil || info.SrcAddr != cm.AddrFromGID(verbs.GID{}, cm.PortSpaceTCP, 7471) || info.Family != IB {
		t.Errorf("Lookup of a passive GID = %+v, %v, want the zero GID", info, err)
	}
}

// TestNames checks the codes for errors of the resolver, and that the first address is used.
func TestNames(t *testing.T) {
	ips := []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("::ffff:10.8.0.1")}
	for _, tc := range []struct {
		family Family
		ips    []netip.Addr
		err    error
		want   error
		addr   string
	}{
		{Any, ips, nil, nil, "[fd00::1]:1"},
		{IPv4, ips[1:], nil, nil, "10.8.0.1:1"},
		{IPv6, ips[:1], nil, nil, "[fd00::1]:1"},
		{IPv6, nil, nil, NoName, ""},
		{Any, nil, &net.DNSError{IsNotFound: true}, NoName, ""},
		{Any, nil, &net.DNSError{IsTemporary: true}, Again, ""},
		{Any, nil, &net.DNSError{IsTimeout: true}, Again, ""},
		{Any, nil, &net.DNSError{}, Fail, ""},
	} {
		r := *goldenResolver
		asked := ""
		r.lookupNetIP = func(_ context.Context, network, _ string) ([]netip.Addr, error) {
			asked = network
			return tc.ips, tc.err
		}
		info, err := r.lookup(context.Background(), "rdma.example", "1", &Hints{Family: tc.family})
		if !errors.Is(err, tc.want) || tc.err != nil && !errors.Is(err, tc.err) || info.DstAddr.String() != tc.addr {
			t.Errorf("lookup in family %d with resolver error %v = %v, %v, want %v, %v", tc.family, tc.err, info.DstAddr, err, tc.addr, tc.want)
		}
		if want := map[Family]string{Any: "ip", IPv4: "ip4", IPv6: "ip6"}[tc.family]; asked != want {
			t.Errorf("lookup used network %s, want %s", asked, want)
		}
	}
	r := *goldenResolver
	r.hasIPv6 = func() bool { return false }
	if info, err := r.lookup(context.Background(), "", "1", nil); err != nil || info.DstAddr != mustAddr("127.0.0.1:1") {
		t.Errorf("lookup without IPv6 = %v, %v, want 127.0.0.1:1", info.DstAddr, err)
	}
}

func TestLookupIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Lookup(ctx, "rdma.example", "1", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Lookup with a cancelled context = %v, want context.Canceled", err)
	}
}

// FuzzLookup checks that every answer can be encoded for the kernel.
func FuzzLookup(f *testing.F) {
	f.Add("10.8.0.1", "7471", uint32(0), uint16(0), uint8(0), uint16(0))
	f.Add("fe80::1%1", "http", uint32(11), uint16(27), uint8(2), uint16(0x13f))
	f.Add("0x7f.1", "+80", uint32(1), uint16(2), uint8(4), uint16(0x111))
	f.Add("*", "*", uint32(8), uint16(10), uint8(9), uint16(2))
	f.Fuzz(func(t *testing.T, node, service string, flags uint32, family uint16, qp uint8, ps uint16) {
		hints := &Hints{Flags: Flags(flags), Family: Family(family), QPType: verbs.QPType(qp), PortSpace: cm.PortSpace(ps)}
		info, err := goldenResolver.lookup(context.Background(), node, service, hints)
		if err != nil {
			if info.SrcAddr.IsValid() || info.DstAddr.IsValid() || err.Error() == "" {
				t.Fatalf("Lookup = %+v with the error %v, want no address", info, err)
			}
			return
		}
		for _, a := range []cm.Addr{info.SrcAddr, info.DstAddr} {
			if a.IsValid() {
				hexAddr(t, a)
			}
		}
	})
}
