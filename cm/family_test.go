// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/verbs"
)

// wantFamilyError checks that an error names the address families that do not match.
func wantFamilyError(t *testing.T, err error, words string) {
	t.Helper()
	fe, oe := new(ArgumentError), new(OpError)
	if !errors.As(err, &fe) || !errors.As(err, &oe) || oe.Op != opResolve || !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), words) {
		t.Errorf("error = %v, want an ArgumentError of resolve with %q", err, words)
	}
}

// TestTwoFamilies checks that addresses of two families fail with a clear error before the
// command, for which the kernel only returns EINVAL. Nothing is opened before.
func TestTwoFamilies(t *testing.T) {
	v4, v6, ib := mustAddr("10.8.0.1:7"), mustAddr("[fd00::1]:7"), AddrFromGID(verbs.GID{1}, PortSpaceTCP, 7)
	for _, tc := range []struct {
		src, dst Addr
		words    string
	}{
		{v4, v6, "10.8.0.1:7->[fd00::1]:7: the destination is [fd00::1]:7: there is no way from an address of IPv4 to one of IPv6"},
		{v6, v4, "IPv6 to one of IPv4"},
		{v6, mustAddr("[::ffff:10.8.0.1]:7"), ""}, // the kernel decides
		{ib, v4, "InfiniBand to one of IPv4"},
		{v6, ib, "IPv6 to one of InfiniBand"},
		{v4, v4, ""}, {v6, v6, ""}, {ib, ib, ""}, {Addr{}, v6, ""},
	} {
		ch, k := newFakeChannel(t)
		id := newFakeID(t, ch)
		k.fail = map[uint32]error{abi.RDMA_USER_CM_CMD_RESOLVE_ADDR: errAsked}
		resolving := id.ResolveAddr(tc.src, tc.dst, time.Second)
		r, dialing := (&Dialer{LocalAddr: tc.src}).ResolveAddr(context.Background(), PortSpaceTCP, tc.dst)
		if r != nil { // if the host has such addresses
			r.Close()
		}
		if tc.words == "" {
			if fe := new(ArgumentError); !errors.Is(resolving, errAsked) || errors.As(dialing, &fe) {
				t.Errorf("%v to %v: ResolveAddr = %v, Dialer.ResolveAddr = %v, want no ArgumentError", tc.src, tc.dst, resolving, dialing)
			}
			continue
		}
		wantFamilyError(t, resolving, tc.words)
		wantFamilyError(t, dialing, tc.words)
	}
	_, err := (&Dialer{LocalAddr: v4}).Dial(context.Background(), "tcp", "[fd00::1]:7")
	wantFamilyError(t, err, "IPv4 to one of IPv6")
}

var errAsked = errors.New("the kernel was asked")

// TestFamilyOfABoundID checks that the family of a bound ID is the family of its own address.
// The kernel does not use the source address of the call.
func TestFamilyOfABoundID(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	k.fail = map[uint32]error{abi.RDMA_USER_CM_CMD_RESOLVE_ADDR: errAsked}
	id.local = mustAddr("10.8.0.1:7")
	wantFamilyError(t, id.ResolveAddr(Addr{}, mustAddr("[fd00::1]:7"), time.Second), "10.8.0.1:7->[fd00::1]:7")
	for _, src := range []string{"10.8.0.1:7", "[fd00::2]:7"} {
		if err := id.ResolveAddr(mustAddr(src), mustAddr("10.8.1.2:7"), time.Second); !errors.Is(err, errAsked) {
			t.Errorf("ResolveAddr of a bound ID from %s = %v, want the error of the command", src, err)
		}
	}
}

// TestFamilyComesLast checks that a closed ID, a removed device and a wrong state are reported
// before the families.
func TestFamilyComesLast(t *testing.T) {
	ch, _ := newFakeChannel(t)
	id := newFakeID(t, ch)
	resolve := func() error { return id.ResolveAddr(mustAddr("10.8.0.1:7"), mustAddr("[fd00::1]:7"), time.Second) }
	var se *StateError
	id.state = StateEstablished
	if err := resolve(); !errors.As(err, &se) || se.State != StateEstablished {
		t.Errorf("ResolveAddr in the state established = %v, want a StateError", err)
	}
	var removed *verbs.DeviceRemovedError
	id.state = StateRemoved
	if err := resolve(); !errors.As(err, &removed) {
		t.Errorf("ResolveAddr on a removed device = %v, want a DeviceRemovedError", err)
	}
	id.Close()
	if err := resolve(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("ResolveAddr after Close = %v, want net.ErrClosed", err)
	}
}

// TestIPv4InIPv6Form checks IPv4-mapped IPv6 addresses, which net.TCPAddr makes of IPv4
// addresses. Together with an IPv4 address they are IPv4 addresses.
func TestIPv4InIPv6Form(t *testing.T) {
	tcp := net.TCPAddr{IP: net.ParseIP("10.8.0.1"), Port: 7}
	mapped, v4, v6 := AddrFrom(tcp.AddrPort()), mustAddr("10.8.1.2:8"), mustAddr("[fd00::1]:9")
	for _, tc := range []struct{ src, dst, wantSrc, wantDst Addr }{
		{mapped, v4, mustAddr("10.8.0.1:7"), v4},
		{v4, mapped, v4, mustAddr("10.8.0.1:7")},
		{mapped, mapped, mapped, mapped},
		{v6, mapped, v6, mapped},
		{Addr{}, mapped, Addr{}, mapped},
	} {
		if src, dst, err := oneFamily(tc.src, tc.dst); src != tc.wantSrc || dst != tc.wantDst || err != nil {
			t.Errorf("oneFamily(%v, %v) = %v, %v, %v, want %v, %v", tc.src, tc.dst, src, dst, err, tc.wantSrc, tc.wantDst)
		}
	}
}

// TestNameOfTwoFamilies checks that choose returns an address that is reachable from the local
// address.
func TestNameOfTwoFamilies(t *testing.T) {
	v4, v6 := netip.MustParseAddr("::ffff:10.8.0.1"), netip.MustParseAddr("fd00::1")
	for _, tc := range []struct {
		ips   []netip.Addr
		local Addr
		want  netip.Addr
	}{
		{[]netip.Addr{v6, v4}, Addr{}, v4.Unmap()},
		{[]netip.Addr{v6, v4}, mustAddr("10.8.1.2:0"), v4.Unmap()},
		{[]netip.Addr{v6, v4}, mustAddr("[::ffff:10.8.1.2]:0"), v4.Unmap()},
		{[]netip.Addr{v4, v6}, mustAddr("[fd00::2]:0"), v6},
		{[]netip.Addr{v4}, mustAddr("[fd00::2]:0"), v4.Unmap()},
	} {
		if got := choose(tc.ips, tc.local); got != tc.want {
			t.Errorf("choose(%v, %v) = %v, want %v", tc.ips, tc.local, got, tc.want)
		}
	}
}
