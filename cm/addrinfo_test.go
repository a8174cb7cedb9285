// SPDX-License-Identifier: Apache-2.0

package cm

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
	"purerdma/ucma"
	"purerdma/verbs"
)

// goldenResolver has the services that the inputs of the golden files name, as
// Debian's netbase has them, and no names.
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

// onlyC has the inputs for which librdmacm answers what we refuse.
var onlyC = map[string]string{
	"10.8.0.1|65536|flags=0":      "a port has 16 bits",
	"10.8.0.1|4294967376|flags=0": "a port has 16 bits",
}

// TestAddrInfoGolden holds our answers against rdma_getaddrinfo's, byte for byte.
func TestAddrInfoGolden(t *testing.T) {
	if _, err := net.InterfaceByName("lo"); err != nil {
		t.Skip("an interface lo is needed")
	}
	golden(t, "addrinfo", func(t *testing.T, lines iter.Seq2[string, string]) {
		n := 0
		for question, want := range lines {
			n++
			got := goldenAnswer(t, question)
			if why := onlyC[question]; why != "" {
				if !strings.HasPrefix(want, "flags=") || !strings.HasPrefix(got, "eai ") {
					t.Errorf("%s: C has %s, ours %s, which is not the difference that is meant: %s", question, want, got, why)
				}
				continue
			}
			if got != want {
				t.Errorf("%s:\n   C has %s\nours has %s", question, want, got)
			}
		}
		if n < 600 {
			t.Errorf("only %d questions", n)
		}
	})
}

// goldenAnswer asks a question of a golden file, and writes the answer as
// test/addrinfo/gen/testdata/query.c does.
func goldenAnswer(t *testing.T, question string) string {
	t.Helper()
	part := strings.Split(question, "|")
	for i, s := range part[:2] {
		if s == "-" {
			part[i] = ""
		}
	}
	info, err := goldenResolver.addrInfo(context.Background(), part[0], part[1], goldenHints(t, part[2]))
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
	name := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	return fmt.Sprintf("flags=%d family=%d qp=%d ps=%d src=%s dst=%s srcname=%s dstname=%s route=0 connect=%d",
		info.Flags, info.Family, info.QPType, info.PortSpace, hexAddr(t, info.SrcAddr), hexAddr(t, info.DstAddr),
		name(info.SrcCanonName), name(info.DstCanonName), len(info.Connect))
}

func goldenHints(t *testing.T, s string) *AddrInfoHints {
	t.Helper()
	if s == "-" {
		return nil
	}
	h := new(AddrInfoHints)
	for _, field := range strings.Fields(s) {
		key, value, _ := strings.Cut(field, "=")
		n, _ := strconv.Atoi(value)
		b, _ := hex.DecodeString(value)
		var sa abi.SockaddrStorage
		copy(sa[:], b)
		switch key {
		case "flags":
			h.Flags = AddrInfoFlags(n)
		case "family":
			h.Family = AddrFamily(n)
		case "qp":
			h.QPType = verbs.QPType(n)
		case "ps":
			h.PortSpace = PortSpace(n)
		case "src":
			h.SrcAddr = addrFromKernel(&sa)
		case "dst":
			h.DstAddr = addrFromKernel(&sa)
		default:
			t.Fatalf("hint %q", field)
		}
	}
	return h
}

func hexAddr(t *testing.T, a Addr) string {
	t.Helper()
	if !a.IsValid() {
		return "-"
	}
	sa, size, err := ucma.EncodeSockaddr(ucma.Addr(a))
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sa[:size])
}

func TestLookupAddrInfo(t *testing.T) {
	ctx := context.Background()
	infos, err := LookupAddrInfo(ctx, "10.8.0.1", "7471", nil)
	if err != nil || len(infos) != 1 || infos[0].DstAddr != mustAddr("10.8.0.1:7471") || infos[0].QPType != verbs.RC || infos[0].PortSpace != PortSpaceTCP {
		t.Errorf("%+v, %v", infos, err)
	}
	// Services and the loopback address are the system's.
	infos, err = LookupAddrInfo(ctx, "", "http", nil)
	if err != nil || !infos[0].DstAddr.Addr().IsLoopback() || infos[0].DstAddr.Port() != 80 {
		t.Errorf("%+v, %v", infos, err)
	}
	infos, err = LookupAddrInfo(ctx, "localhost", "1", &AddrInfoHints{Family: FamilyIPv4})
	if err != nil || infos[0].DstAddr != mustAddr("127.0.0.1:1") {
		t.Errorf("%+v, %v", infos, err)
	}
}

func TestLookupAddrInfoErrors(t *testing.T) {
	gid := &AddrInfoHints{Flags: AddrInfoFamily | AddrInfoNumericHost, Family: FamilyIB}
	for _, tc := range []struct {
		node, service string
		hints         *AddrInfoHints
		want          error
		text          string
	}{
		{"", "", nil, syscall.EINVAL, "hints"},
		{"10.8.0.1", "65536", nil, EAIService, "16 bits"},
		{"10.8.0.1", "7471", gid, EAIAddrFamily, "10.8.0.1"},
		{"rdma.example", "7471", &AddrInfoHints{Flags: AddrInfoNumericHost}, EAINoName, `"rdma.example"`},
		{"10.8.0.1", "storage", &AddrInfoHints{Flags: AddrInfoSA}, syscall.EOPNOTSUPP, "no node"},
		{"", "storage", &AddrInfoHints{Flags: AddrInfoSA | AddrInfoDNS}, syscall.EOPNOTSUPP, "exclude"},
		{"", "", &AddrInfoHints{Flags: AddrInfoSA}, syscall.EINVAL, "takes a service"},
		{"fe80::1%no-such-if", "1", nil, EAINoName, "no-such-if"},
	} {
		infos, err := LookupAddrInfo(context.Background(), tc.node, tc.service, tc.hints)
		var op *OpError
		if len(infos) != 0 || !errors.Is(err, tc.want) || !errors.As(err, &op) || !strings.Contains(err.Error(), tc.text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s: %v, %v", tc.node, tc.service, infos, err)
		}
	}
	// To listen on every GID: what librdmacm fills with bytes of anything is zero.
	gid.Flags |= AddrInfoPassive
	infos, err := LookupAddrInfo(context.Background(), "", "7471", gid)
	if err != nil || infos[0].SrcAddr != AddrFromGID(verbs.GID{}, PortSpaceTCP, 7471) || infos[0].Family != FamilyIB {
		t.Errorf("%+v, %v", infos, err)
	}
}

// TestAddrInfoNames: what the resolver says becomes getaddrinfo's codes, and the
// first address counts.
func TestAddrInfoNames(t *testing.T) {
	ips := []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("::ffff:10.8.0.1")}
	for _, tc := range []struct {
		family AddrFamily
		ips    []netip.Addr
		err    error
		want   error
		addr   string
	}{
		{FamilyAny, ips, nil, nil, "[fd00::1]:1"},
		{FamilyIPv4, ips[1:], nil, nil, "10.8.0.1:1"},
		{FamilyIPv6, ips[:1], nil, nil, "[fd00::1]:1"},
		{FamilyIPv6, nil, nil, EAINoName, ""},
		{FamilyAny, nil, &net.DNSError{IsNotFound: true}, EAINoName, ""},
		{FamilyAny, nil, &net.DNSError{IsTemporary: true}, EAIAgain, ""},
		{FamilyAny, nil, &net.DNSError{IsTimeout: true}, EAIAgain, ""},
		{FamilyAny, nil, &net.DNSError{}, EAIFail, ""},
	} {
		r := *goldenResolver
		asked := ""
		r.lookupNetIP = func(_ context.Context, network, _ string) ([]netip.Addr, error) {
			asked = network
			return tc.ips, tc.err
		}
		info, err := r.addrInfo(context.Background(), "rdma.example", "1", &AddrInfoHints{Family: tc.family})
		if !errors.Is(err, tc.want) || tc.err != nil && !errors.Is(err, tc.err) || info.DstAddr.String() != tc.addr {
			t.Errorf("%d, %v: %v, %v", tc.family, tc.err, info.DstAddr, err)
		}
		if want := map[AddrFamily]string{FamilyAny: "ip", FamilyIPv4: "ip4", FamilyIPv6: "ip6"}[tc.family]; asked != want {
			t.Errorf("asked for %s, want %s", asked, want)
		}
	}
	r := *goldenResolver
	r.hasIPv6 = func() bool { return false }
	if info, err := r.addrInfo(context.Background(), "", "1", nil); err != nil || info.DstAddr != mustAddr("127.0.0.1:1") {
		t.Errorf("without IPv6: %v, %v", info.DstAddr, err)
	}
}

func TestLookupAddrInfoIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := LookupAddrInfo(ctx, "rdma.example", "1", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// FuzzAddrInfo: whatever is asked for, there is an answer that the kernel can be
// given, or an error that says what it was about.
func FuzzAddrInfo(f *testing.F) {
	f.Add("10.8.0.1", "7471", uint32(0), uint16(0), uint8(0), uint16(0))
	f.Add("fe80::1%1", "http", uint32(11), uint16(27), uint8(2), uint16(0x13f))
	f.Add("0x7f.1", "+80", uint32(1), uint16(2), uint8(4), uint16(0x111))
	f.Add("*", "*", uint32(8), uint16(10), uint8(9), uint16(2))
	f.Fuzz(func(t *testing.T, node, service string, flags uint32, family uint16, qp uint8, ps uint16) {
		hints := &AddrInfoHints{Flags: AddrInfoFlags(flags), Family: AddrFamily(family), QPType: verbs.QPType(qp), PortSpace: PortSpace(ps)}
		info, err := goldenResolver.addrInfo(context.Background(), node, service, hints)
		if err != nil {
			if info.SrcAddr.IsValid() || info.DstAddr.IsValid() || err.Error() == "" {
				t.Fatalf("%+v and %v", info, err)
			}
			return
		}
		for _, a := range []Addr{info.SrcAddr, info.DstAddr} {
			if a.IsValid() {
				hexAddr(t, a)
			}
		}
	})
}
