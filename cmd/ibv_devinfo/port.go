// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"

	"purerdma/verbs"
)

// port prints a port.
func (p *printer) port(n uint8) error {
	a, err := p.dev.QueryPort(n)
	if err != nil {
		p.u.Errorf("Failed to query port %d props\n", n)
		return err
	}
	link := "Unspecified"
	if a.LinkLayer != verbs.LinkUnspecified {
		link = a.LinkLayer.String()
	}
	p.printf("\t\tport:\t%d\n", n)
	p.printf("\t\t\tstate:\t\t\t%s\n", word(portStates, uint32(a.State), "invalid state"))
	p.printf("\t\t\tmax_mtu:\t\t%s\n", word(mtus, uint32(a.MaxMTU), "invalid MTU"))
	p.printf("\t\t\tactive_mtu:\t\t%s\n", word(mtus, uint32(a.ActiveMTU), "invalid MTU"))
	p.printf("\t\t\tsm_lid:\t\t\t%d\n", a.SMLID)
	p.printf("\t\t\tport_lid:\t\t%d\n", a.LID)
	p.printf("\t\t\tport_lmc:\t\t0x%02x\n", a.LMC)
	p.printf("\t\t\tlink_layer:\t\t%s\n", link)
	if p.verbose {
		p.portDetails(&a)
		if err := p.gids(n, a.LinkLayer); err != nil {
			return err
		}
	}
	p.printf("\n")
	return nil
}

func (p *printer) portDetails(a *verbs.PortAttr) {
	width, ok := widths[uint32(a.ActiveWidth)]
	if !ok {
		width = "invalid width"
	}
	p.printf("\t\t\tmax_msg_sz:\t\t0x%x\n", a.MaxMessage)
	p.printf("\t\t\tport_cap_flags:\t\t0x%08x\n", a.CapFlags)
	p.printf("\t\t\tport_cap_flags2:\t0x%04x\n", a.CapFlags2)
	p.printf("\t\t\tmax_vl_num:\t\t%s\n", word(vls, uint32(a.MaxVLNum), "invalid value"))
	p.printf("\t\t\tbad_pkey_cntr:\t\t0x%x\n", a.BadPKeys)
	p.printf("\t\t\tqkey_viol_cntr:\t\t0x%x\n", a.QKeyViolations)
	p.printf("\t\t\tsm_sl:\t\t\t%d\n", a.SMSL)
	p.printf("\t\t\tpkey_tbl_len:\t\t%d\n", a.PKeyTableLen)
	p.printf("\t\t\tgid_tbl_len:\t\t%d\n", a.GIDTableLen)
	p.printf("\t\t\tsubnet_timeout:\t\t%d\n", a.SubnetTimeout)
	p.printf("\t\t\tinit_type_reply:\t%d\n", a.InitTypeReply)
	p.printf("\t\t\tactive_width:\t\t%sX (%d)\n", width, a.ActiveWidth)
	p.printf("\t\t\tactive_speed:\t\t%s\n", word(speeds, uint32(a.ActiveSpeed), "invalid speed"))
	if p.dev.Transport() == verbs.TransportIB {
		p.printf("\t\t\tphys_state:\t\t%s\n", word(physStates, uint32(a.PhysState), "invalid physical state"))
	}
}

// gids prints the GIDs of a port, except GIDs without an interface ID.
func (p *printer) gids(port uint8, link verbs.LinkLayer) error {
	all, err := p.dev.GIDs()
	if err != nil {
		p.u.Errorf("Failed to query gid to port %d, index 0\n", port)
		return err
	}
	slices.SortFunc(all, func(a, b verbs.GIDEntry) int { return cmp.Compare(a.Index, b.Index) })
	for _, g := range all {
		if g.Port != port || [8]byte(g.GID[8:]) == [8]byte{} {
			continue
		}
		text := g.GID.String()
		if g.Type != verbs.GIDTypeRoCEv2 {
			text = long(g.GID)
		}
		if link == verbs.LinkEthernet {
			typ := g.Type
			if typ == verbs.GIDTypeIB { // sysfs has one name for both
				typ = verbs.GIDTypeRoCEv1
			}
			text += ", " + typ.String()
		}
		p.printf("\t\t\tGID[%3d]:\t\t%s\n", g.Index, text)
	}
	return nil
}

// long formats a GID without abbreviation.
func long(g verbs.GID) string {
	s := ""
	for i := 0; i < len(g); i += 2 {
		s += fmt.Sprintf(":%02x%02x", g[i], g[i+1])
	}
	return s[1:]
}
