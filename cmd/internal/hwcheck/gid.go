// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"purerdma/oob"
	"purerdma/verbs"
)

// gidChecks use each kind of address of a port.
var gidChecks = []Check{
	{ID: "gids", Title: "messages and datagrams from each kind of GID", needs: needsEthernet, do: func(t *trial) { checkGIDs(t, false) }},
	{ID: "vlan", Title: "messages and datagrams in a VLAN", needs: needsEthernet, do: func(t *trial) { checkGIDs(t, true) }},
	{ID: "multicast", Title: "datagrams to a multicast group", needs: needsGroup, do: checkMulticast},
}

// GIDKind is a kind of GID on Ethernet. Frames of two kinds have different headers.
type GIDKind struct {
	Type verbs.GIDType
	// IPv6 and LinkLocal describe the address.
	IPv6, LinkLocal bool
	// VLAN is set for the address of a VLAN interface.
	VLAN bool
}

// String returns a text such as "RoCE v2, IPv4".
func (k GIDKind) String() string {
	s := k.Type.String()
	switch {
	case k.LinkLocal:
		s += ", link-local"
	case k.IPv6:
		s += ", IPv6"
	default:
		s += ", IPv4"
	}
	if k.VLAN {
		s += ", VLAN"
	}
	return s
}

// kinds returns a GID of each kind that the port has.
func (t *Target) kinds(dev *verbs.Device) (map[GIDKind]verbs.GIDEntry, error) {
	table, err := dev.GIDs()
	if err != nil {
		return nil, err
	}
	own, err := t.gid(dev)
	if err != nil {
		return nil, err
	}
	kinds := map[GIDKind]verbs.GIDEntry{}
	for _, g := range table {
		if g.Port != t.Port {
			continue
		}
		addr := g.GID.Addr()
		k := GIDKind{Type: g.Type, IPv6: !addr.Is4(), LinkLocal: addr.IsLinkLocalUnicast()}
		switch {
		case g.Ifindex == own.Ifindex:
		case isVLAN(g.Ifindex):
			k.VLAN = true
		default:
			continue // of another interface, which can be in another namespace
		}
		if k.LinkLocal && !hasAddress(g.Ifindex, addr) {
			continue // made of the MAC address, and without a route
		}
		if _, ok := kinds[k]; !ok {
			kinds[k] = g
		}
	}
	return kinds, nil
}

// hasAddress reports whether a network interface has an address.
func hasAddress(index int, addr netip.Addr) bool {
	iface, err := net.InterfaceByIndex(index)
	if err != nil {
		return false
	}
	list, err := iface.Addrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(list, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr() == addr
	})
}

// isVLAN reports whether a network interface is in a VLAN.
func isVLAN(index int) bool {
	iface, err := net.InterfaceByIndex(index)
	if err != nil {
		return false
	}
	b, err := os.ReadFile(filepath.Join("/sys/class/net", iface.Name, "uevent"))
	return err == nil && slices.Contains(strings.Fields(string(b)), "DEVTYPE=vlan")
}

// gid returns the GID from which the end sends.
func (e *end) gid() (verbs.GIDEntry, error) {
	if e.cfg.GID == nil {
		return e.target.gid(e.dev)
	}
	kinds, err := e.target.kinds(e.dev)
	if err != nil {
		return verbs.GIDEntry{}, err
	}
	g, ok := kinds[*e.cfg.GID]
	if !ok {
		return g, fmt.Errorf("port %d has no GID of kind %v", e.target.Port, *e.cfg.GID)
	}
	return g, nil
}

// Kinds returns the kinds of GIDs that the far end has.
func (x *Ends) Kinds(_ struct{}, list *[]GIDKind) error {
	dev, err := x.s.target.Host.Open(x.s.target.Device)
	if err != nil {
		return err
	}
	defer dev.Close()
	kinds, err := x.s.target.kinds(dev)
	for k := range kinds {
		*list = append(*list, k)
	}
	slices.SortFunc(*list, func(a, b GIDKind) int { return strings.Compare(a.String(), b.String()) })
	return err
}

func needsEthernet(t *trial) string {
	if iwarp(t.dev) {
		return "iWARP has no GIDs"
	}
	if t.dev.LinkLayer(t.target.Port) != verbs.LinkEthernet {
		return "the port is not Ethernet"
	}
	return ""
}

func checkGIDs(t *trial, vlan bool) {
	near, err := t.target.kinds(t.dev)
	t.must("query the GIDs", err)
	var far []GIDKind
	t.call("Kinds", struct{}{}, &far)
	used := 0
	for _, k := range far {
		if _, ok := near[k]; !ok || k.VLAN != vlan {
			continue
		}
		used++
		kind := k
		sendOne(t.link(Config{GID: &kind}), used, 3000)
		if t.features.UD {
			t.answers(Config{Type: verbs.UD, GID: &kind})
		}
		t.note("%v: messages and datagrams", k)
	}
	if vlan {
		t.needsOne(used, "GID of a VLAN interface at both ends")
	}
	t.needsOne(used, "GID of one kind at both ends")
}

func needsGroup(t *trial) string {
	if reason := needsUD(t); reason != "" {
		return reason
	}
	if t.attr.MaxMcastGroups == 0 {
		return "the device has no multicast groups"
	}
	return needsEthernet(t)
}

// AttachArgs are the arguments of Attach.
type AttachArgs struct {
	End   int
	Group verbs.GID
}

// Attach attaches the QP of an end to a multicast group.
func (x *Ends) Attach(a AttachArgs, _ *struct{}) error {
	e, err := x.s.find(a.End)
	if err != nil {
		return err
	}
	return e.qp.AttachMulticast(a.Group, 0)
}

// allHosts is the group 224.0.0.1. All hosts are members, so that no switch needs a report.
var allHosts = verbs.GID{10: 0xff, 11: 0xff, 12: 224, 15: 1}

func checkMulticast(t *trial) {
	gid, err := t.target.gid(t.dev)
	t.must("choose a GID", err)
	if !gid.GID.Addr().Is4() {
		t.skip("the network interface has no IPv4 address")
	}
	l := t.link(Config{Type: verbs.UD})
	t.call("Attach", AttachArgs{l.far, allHosts}, &struct{}{})
	ah, err := l.pd.CreateAH(l.path.AH(oob.Address{GID: allHosts}))
	t.must("create the address of a group", err)
	t.later(ah.Close)
	for i, size := range []int{1, 64, 500} {
		want := pattern(i, size)
		l.farRecv(uint64(i), piece{0, verbs.GRHLen + size})
		copy(l.mr.Bytes(), want)
		l.send(verbs.SendWR{
			Opcode: verbs.OpSend, SGList: l.elements([]piece{{0, size}}), AH: ah, RemoteQPN: verbs.MulticastQPN, RemoteQKey: l.path.RemoteQKey(),
		})
		wc := l.farReceived(1)[0]
		if wc.SrcQP != l.qp.Num() || wc.ID != uint64(i) || int(wc.ByteLen) != verbs.GRHLen+size {
			t.fail("datagram to a group: completion %+v, want ID %d, %d bytes from QP %d", wc, i, verbs.GRHLen+size, l.qp.Num())
		}
		l.same("datagram to a group", l.load(verbs.GRHLen, size), want)
	}
}
