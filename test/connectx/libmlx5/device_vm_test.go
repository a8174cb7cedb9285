// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libmlx5

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
	"purerdma/test/pairing/meeting"
	"purerdma/verbs"
)

func TestDevinfo(t *testing.T) {
	for _, h := range vmtest.Hosts(t, 2) {
		p, err := pairing.Start(t.Context(), meeting.Program(t, "ibv_devinfo"), "-v", "-d", h.Device)
		if err != nil {
			t.Fatalf("pairing.Start: %v", err)
		}
		out, err := p.Wait(meeting.ClientLimit)
		if err != nil || out.Status != 0 {
			t.Fatalf("ibv_devinfo: %v, %v", err, out)
		}
		for _, want := range []string{"fw_ver:\t\t\t\t16.35.4030", "vendor_part_id:\t\t\t4119", "PORT_ACTIVE (4)", "link_layer:\t\tEthernet", "board_id:\t\t\tPURERDMA_MODEL",
			"::ffff:" + h.IPv4.String() + ", RoCE v2", "atomic_cap:\t\t\tATOMIC_HCA", "max_mtu:\t\t4096"} {
			if !strings.Contains(out.Stdout, want) {
				t.Errorf("output for %s lacks %q:\n%s", h.Device, want, out.Stdout)
			}
		}
	}
}

// TestAsyncwatch sets the port down and up with its interface, and checks that programs receive
// the events.
func TestAsyncwatch(t *testing.T) {
	h := vmtest.Hosts(t, 2)[0]
	p, err := pairing.Start(t.Context(), meeting.Program(t, "ibv_asyncwatch"), "-d", h.Device)
	if err != nil {
		t.Fatalf("pairing.Start: %v", err)
	}
	printed := func(want string) {
		t.Helper()
		for start := time.Now(); !strings.Contains(p.Output().Stdout, want); time.Sleep(10 * time.Millisecond) {
			if time.Since(start) > meeting.ServerLimit || !p.Alive() {
				t.Fatalf("output lacks %q: %v", want, p.Output())
			}
		}
	}
	printed("async event FD")
	link, err := netlink.LinkByName(h.Interface)
	if err != nil {
		t.Fatalf("netlink.LinkByName: %v", err)
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{LinkIndex: link.Attrs().Index, Table: 200}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
	if err != nil {
		t.Fatalf("netlink.RouteListFiltered: %v", err)
	}
	t.Cleanup(func() { restore(t, h, routes) })
	if err := netlink.LinkSetDown(link); err != nil {
		t.Fatalf("netlink.LinkSetDown: %v", err)
	}
	printed("IBV_EVENT_PORT_ERR")
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatalf("netlink.LinkSetUp: %v", err)
	}
	printed("IBV_EVENT_PORT_ACTIVE")
}

// restore sets an interface up, and restores its addresses and routes.
func restore(t *testing.T, h vmtest.Host, routes []netlink.Route) {
	link, err := netlink.LinkByName(h.Interface)
	if err == nil {
		err = errors.Join(netlink.LinkSetUp(link), netlink.AddrReplace(link, address(h.IPv6.String()+"/64")))
	}
	for _, r := range routes {
		err = errors.Join(err, netlink.RouteReplace(&r))
	}
	if err != nil {
		t.Errorf("restore(%s): %v", h.Interface, err)
	}
	for start := time.Now(); !hasGIDs(h); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > meeting.ServerLimit {
			t.Fatal("the GIDs did not return")
		}
	}
}

// hasGIDs reports whether a host's addresses are in its table of GIDs.
func hasGIDs(h vmtest.Host) bool {
	dev, err := verbs.DefaultHost().Open(h.Device)
	if err != nil {
		return false
	}
	defer dev.Close()
	_, err4 := dev.GIDFor(1, h.IPv4)
	_, err6 := dev.GIDFor(1, h.IPv6)
	return err4 == nil && err6 == nil
}

func address(s string) *netlink.Addr {
	a, err := netlink.ParseAddr(s)
	if err != nil {
		panic(err)
	}
	a.Flags = 0x02 // IFA_F_NODAD
	return a
}
