// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"purerdma/verbs"
)

func TestAddr(t *testing.T) {
	gid := verbs.GID(netip.MustParseAddr("fe80::2:c903:0:1").As16())
	ib := AddrFromGID(gid, PortSpaceTCP, 7471)
	for _, tc := range []struct {
		addr    Addr
		valid   bool
		port    uint16
		network string
		text    string
	}{
		{Addr{}, false, 0, "rdma", ""},
		{mustAddr("10.8.0.1:7471"), true, 7471, "rdma", "10.8.0.1:7471"},
		{mustAddr("[fe80::1%eth0]:1"), true, 1, "rdma", "[fe80::1%eth0]:1"},
		{ib, true, 7471, "ib", "ib[fe80::2:c903:0:1]:0x1061d2f"},
		{AddrFromGID(verbs.GID{}, 0, 0), true, 0, "ib", "ib[::]:0x0"},
	} {
		var a net.Addr = tc.addr
		if tc.addr.IsValid() != tc.valid || tc.addr.Port() != tc.port || a.Network() != tc.network || a.String() != tc.text {
			t.Errorf("%#v: valid %v, port %d, network %q, text %q, want %v, %d, %q, %q",
				tc.addr, tc.addr.IsValid(), tc.addr.Port(), a.Network(), a.String(), tc.valid, tc.port, tc.network, tc.text)
		}
		if b, err := json.Marshal(tc.addr); err != nil || string(b) != `"`+tc.text+`"` {
			t.Errorf("json.Marshal(%v) = %s, %v, want %q", tc.addr, b, err, tc.text)
		}
		if b, err := tc.addr.AppendText([]byte("to ")); err != nil || string(b) != "to "+tc.text {
			t.Errorf("AppendText(\"to \") = %q, %v, want %q", b, err, "to "+tc.text)
		}
	}
	if ib != AddrFromGID(gid, PortSpaceTCP, 7471) || ib == AddrFromGID(gid, PortSpaceTCP, 7472) {
		t.Error("InfiniBand addresses: equal ones differ, or different ones are equal")
	}
	if ib.IB.PKey != 0xffff || ib.IB.ServiceIDMask != 0xffffffffffffffff {
		t.Errorf("AddrFromGID() = %+v, want PKey 0xffff and a mask of ones", ib.IB)
	}
	if m := AddrFromGID(gid, PortSpaceTCP, 0).IB.ServiceIDMask; m != 0xffffffffffff0000 {
		t.Errorf("ServiceIDMask of port 0 = %#x, want 0xffffffffffff0000", m)
	}
}

// TestLookup checks lookup. It leaves literals that package net would change as they are, like
// getaddrinfo(3).
func TestLookup(t *testing.T) {
	for _, tc := range []struct {
		network, address string
		listen           bool
		want             string // "" for an error
	}{
		{"tcp", "10.8.0.1:7471", false, "10.8.0.1:7471"},
		{"tcp", "[::ffff:10.8.0.1]:7471", false, "[::ffff:10.8.0.1]:7471"},
		{"tcp6", "[::ffff:10.8.0.1]:7471", false, "[::ffff:10.8.0.1]:7471"},
		{"tcp4", "[::ffff:10.8.0.1]:7471", false, "10.8.0.1:7471"},
		{"tcp", "[fe80::1%eth0]:7471", false, "[fe80::1%eth0]:7471"},
		{"tcp6", "[fe80::1%3]:7471", false, "[fe80::1%3]:7471"},
		{"tcp4", "[fd00::1]:7471", false, ""},
		{"tcp6", "10.8.0.1:7471", false, ""},
		{"tcp", ":7471", true, "[::]:7471"},
		{"tcp4", ":0", true, "0.0.0.0:0"},
		{"sctp", "10.8.0.1:1", false, ""},
		{"udp4", "10.8.0.1:1", false, "10.8.0.1:1"},
		{"udp6", "10.8.0.1:1", false, ""},
		{"udp", ":1", true, "[::]:1"},
		{"tcp", ":7471", false, ""},
		{"tcp", "10.8.0.1", false, ""},
		{"tcp", "10.8.0.1:65536", false, ""},
		{"ip", "10.8.0.1:1", false, ""},
	} {
		got, _, err := lookup(context.Background(), tc.network, tc.address, tc.listen, Addr{})
		if got.String() != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("lookup(%s, %s) = %v, %v, want %q", tc.network, tc.address, got, err, tc.want)
		}
	}
}

// TestLookupWildcards looks up the addresses of listeners on all addresses. Package net listens on the same ones,
// except that "0.0.0.0" has IPv4 requests only.
func TestLookupWildcards(t *testing.T) {
	for _, tc := range []struct {
		network, address string
		want             string // "" for an error
		withoutIPv6      string // "" if there is no such address
	}{
		{"tcp", "", "[::]:0", "0.0.0.0:0"},
		{"tcp", ":0", "[::]:0", "0.0.0.0:0"},
		{"tcp", ":7471", "[::]:7471", "0.0.0.0:7471"},
		{"tcp", "[::]:0", "[::]:0", "0.0.0.0:0"},
		{"tcp", "[0::0]:0", "[::]:0", "0.0.0.0:0"},
		{"tcp", "0.0.0.0:0", "0.0.0.0:0", ""},
		{"tcp4", "", "0.0.0.0:0", ""},
		{"tcp4", ":0", "0.0.0.0:0", ""},
		{"tcp4", "[::]:0", "0.0.0.0:0", ""},
		{"tcp4", "0.0.0.0:0", "0.0.0.0:0", ""},
		{"tcp6", "", "[::]:0", ""},
		{"tcp6", ":0", "[::]:0", ""},
		{"tcp6", "[::]:0", "[::]:0", ""},
		{"tcp6", "0.0.0.0:0", "", ""},
		{"tcp", "[::1]:0", "[::1]:0", ""},
		{"tcp", "0", "", ""},
	} {
		got, _, err := lookup(context.Background(), tc.network, tc.address, true, Addr{})
		if got.String() != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("lookup(%q, %q) = %v, %v, want %q", tc.network, tc.address, got, err, tc.want)
		}
		if all4, ok := withoutIPv6(tc.network, got); all4.String() != tc.withoutIPv6 || ok != (tc.withoutIPv6 != "") {
			t.Errorf("withoutIPv6(%q, %v) = %v, %v, want %q", tc.network, got, all4, ok, tc.withoutIPv6)
		}
		if _, err := net.ResolveTCPAddr(tc.network, tc.address); (err != nil) != (tc.want == "") {
			t.Errorf("net.ResolveTCPAddr(%q, %q) = %v, and lookup has returned %v", tc.network, tc.address, err, got)
		}
	}
	// C's resolver, which package net may use, takes the name "0" for 0.0.0.0.
	got, _, err := lookup(context.Background(), "tcp", "0:0", true, Addr{})
	if _, ok := withoutIPv6("tcp", got); ok || err == nil && got != wildcard4(0) {
		t.Errorf("lookup(tcp, 0:0) = %v, %v, want an error or %v", got, err, wildcard4(0))
	}
	for _, network := range []string{"tcp", "tcp4", "tcp6"} {
		if got, _, err := lookup(context.Background(), network, "", false, Addr{}); err == nil {
			t.Errorf("lookup(%q, \"\") to connect = %v, want an error", network, got)
		}
	}
}

// TestUnknownZone checks that Bind and ResolveAddr report a missing interface without a
// command to the kernel.
func TestUnknownZone(t *testing.T) {
	ch, _ := newFakeChannel(t)
	id := newFakeID(t, ch)
	dst := mustAddr("[fe80::1%no-such-if]:1")
	for op, err := range map[string]error{"bind": id.Bind(dst), "resolve": id.ResolveAddr(Addr{}, dst, 1)} {
		var addr *net.AddrError
		if !errors.As(err, &addr) || addr.Addr != "no-such-if" || !strings.HasPrefix(err.Error(), "rdma "+op) {
			t.Errorf("%s with an unknown zone = %v, want a net.AddrError for no-such-if", op, err)
		}
	}
}

// FuzzParseAddr checks that a parsed address prints as text that parses to the same address.
func FuzzParseAddr(f *testing.F) {
	for _, s := range []string{"10.8.0.1:7471", "[fe80::1%eth0]:7471", "[::ffff:1.2.3.4]:0", "[::]:65536", "ib[::]:0x1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddr(s)
		if err != nil {
			if a.IsValid() {
				t.Fatalf("ParseAddr(%q) = %v, %v, want no address with an error", s, a, err)
			}
			return
		}
		if b, err := ParseAddr(a.String()); err != nil || b != a {
			t.Fatalf("ParseAddr(%q) = %v, which parses to %v, %v", s, a, b, err)
		}
	})
}
