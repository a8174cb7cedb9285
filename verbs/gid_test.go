// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"purerdma/uverbs"
)

func gidOf(s string) GID { return netip.MustParseAddr(s).As16() }

func TestGIDChoice(t *testing.T) {
	v1 := func(i uint8, s string) GIDEntry { return GIDEntry{gidOf(s), 1, i, GIDTypeRoCEv1, 7} }
	v2 := func(i uint8, s string) GIDEntry { return GIDEntry{gidOf(s), 1, i, GIDTypeRoCEv2, 7} }
	on := func(g GIDEntry, port uint8, ifindex int) GIDEntry { g.Port, g.Ifindex = port, ifindex; return g }
	table := []GIDEntry{
		v2(5, "2001:db8::1"), v1(0, "fe80::1"), v2(1, "fe80::1"), v1(2, "10.0.0.1"), v2(3, "10.0.0.1"), v2(4, "10.0.0.2"),
		on(v2(6, "10.0.0.1"), 1, 70), on(v2(0, "10.9.0.1"), 2, 9), on(v2(7, "192.0.2.1"), 1, 8),
	}
	ifs := []uverbs.Interface{
		{Index: 7, Name: "eth0", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("10.0.0.3")}},
		{Index: 9, Name: "eth1", Addrs: []netip.Addr{netip.MustParseAddr("10.9.0.1")}},
		{Index: 8, Name: "eth0.5"},
	}
	for _, tc := range []struct {
		name   string
		port   uint8
		link   LinkLayer
		addr   string
		table  []GIDEntry
		ifs    []uverbs.Interface
		index  uint8
		reason string
	}{
		{"any", 1, LinkEthernet, "", table, ifs, 3, ""},
		{"IPv4", 1, LinkEthernet, "10.0.0.2", table, ifs, 4, ""},
		{"mapped", 1, LinkEthernet, "::ffff:10.0.0.2", table, ifs, 4, ""},
		{"IPv6", 1, LinkEthernet, "2001:db8::1", table, ifs, 5, ""},
		{"link-local with its zone", 1, LinkEthernet, "fe80::1%eth0", table, ifs, 1, ""},
		{"link-local with a zone by number", 1, LinkEthernet, "fe80::1%7", table, ifs, 1, ""},
		{"routed before link-local", 1, LinkEthernet, "", []GIDEntry{table[2], table[0]}, ifs, 5, ""},
		{"other port", 2, LinkEthernet, "", table, ifs, 0, ""},
		{"foreign zone", 1, LinkEthernet, "fe80::1%eth1", table, ifs, 0, "this network namespace has no such address"},
		{"other interface's", 1, LinkEthernet, "10.9.0.1", []GIDEntry{table[4]}, ifs, 0, "it is an address of eth1, the device belongs to eth0"},
		{"nobody's", 1, LinkEthernet, "10.0.0.77", []GIDEntry{table[4]}, ifs, 0, "this network namespace has no such address; the device belongs to eth0"},
		{"not in the table", 1, LinkEthernet, "10.0.0.3", []GIDEntry{table[4]}, ifs, 0, "eth0 has the address, but the GID table has not"},
		{"empty", 3, LinkEthernet, "", table, ifs, 0, "its GID table is empty"},
		{"v1 only", 1, LinkEthernet, "", table[1:2], ifs, 0, "none of its GIDs is of type RoCE v2"},
		{"other namespace", 1, LinkEthernet, "10.0.0.1", table[6:7], ifs, 0, "its network interface is in another network namespace"},
		{"other namespace with the same index", 1, LinkEthernet, "", []GIDEntry{v2(2, "172.16.0.1")}, ifs, 0, "none of its GIDs is an address that eth0 has now"},
		{"InfiniBand", 1, LinkInfiniBand, "", []GIDEntry{{gidOf("fe80::2:c903:1"), 1, 0, GIDTypeIB, 0}}, nil, 0, ""},
		{"InfiniBand, another", 1, LinkInfiniBand, "fe80::9", []GIDEntry{{gidOf("fe80::2:c903:1"), 1, 0, GIDTypeIB, 0}}, nil, 0, "no entry of the table has it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := gidChoice{port: tc.port, link: tc.link, netdevs: tc.ifs}
			if tc.addr != "" {
				c.addr = netip.MustParseAddr(tc.addr)
			}
			g, reason, have := c.choose(tc.table)
			if !strings.HasPrefix(reason, tc.reason) || (reason == "") != (tc.reason == "") {
				t.Fatalf("choose: reason = %q, want %q", reason, tc.reason)
			}
			if reason == "" && (g.Index != tc.index || g.Port != tc.port || tc.link == LinkEthernet && g.Type != GIDTypeRoCEv2) {
				t.Errorf("choose = %+v, want index %d", g, tc.index)
			}
			for _, h := range have {
				if h.Port != tc.port {
					t.Errorf("choose listed %+v of another port, want only port %d", h, tc.port)
				}
			}
		})
	}
}

func TestNoGIDError(t *testing.T) {
	e := &NoGIDError{Device: "rxe0", Port: 1, Addr: netip.MustParseAddr("10.0.0.9"), Reason: "nobody has it", Have: make([]GIDEntry, 9)}
	e.Have[0] = GIDEntry{gidOf("10.0.0.1"), 1, 3, GIDTypeRoCEv2, 7}
	const want = "RDMA device rxe0, port 1: no GID for 10.0.0.9: nobody has it; it has ::ffff:10.0.0.1 (RoCE v2, index 3), "
	if s := e.Error(); !strings.HasPrefix(s, want) || !strings.HasSuffix(s, ", ...") || !errors.Is(e, syscall.EADDRNOTAVAIL) {
		t.Errorf("Error() = %q, want %q and a list that ends with ...", s, want)
	}
}
