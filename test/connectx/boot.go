// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"

	"purerdma/test/connectx/prm"
)

// Numbers of memory pages that the firmware requests from the driver. It does not use them, but
// every driver must provide them.
const (
	bootPages = 16
	initPages = 64
	maxPages  = 1 << 16
)

var bootCommands = map[uint16]command{
	prm.OpEnableHCA:        {"ENABLE_HCA", 16, 16, enableHCA},
	prm.OpDisableHCA:       {"DISABLE_HCA", 16, 16, disableHCA},
	prm.OpInitHCA:          {"INIT_HCA", 16, 16, initHCA},
	prm.OpTeardownHCA:      {"TEARDOWN_HCA", 16, 16, teardownHCA},
	prm.OpQueryISSI:        {"QUERY_ISSI", 16, 0x70, queryISSI},
	prm.OpSetISSI:          {"SET_ISSI", 16, 16, setISSI},
	prm.OpQueryPages:       {"QUERY_PAGES", 16, 16, queryPages},
	prm.OpManagePages:      {"MANAGE_PAGES", 16, 16, managePages},
	prm.OpQueryAdapter:     {"QUERY_ADAPTER", 16, 0x110, queryAdapter},
	prm.OpSetDriverVersion: {"SET_DRIVER_VERSION", 0x50, 16, func(*Device, []byte, []byte) error { return nil }},
}

// move changes the device's state.
func (d *Device) move(name string, from, to hcaState) error {
	if d.fw.state != from {
		return refuse(prm.StatusBadSysState, "%s: the device is %v, not %v", name, d.fw.state, from)
	}
	d.fw.state = to
	return nil
}

// ownFunction rejects a command for another function than the driver's own.
func ownFunction(in []byte) error {
	if prm.FunctionIn.Other.Is(in) || prm.FunctionIn.Function.Is(in) {
		return refuse(prm.StatusBadParam, "there is no function %d", prm.FunctionIn.Function.Get(in))
	}
	return nil
}

func enableHCA(d *Device, in, _ []byte) error {
	if err := ownFunction(in); err != nil {
		return err
	}
	return d.move("ENABLE_HCA", hcaDisabled, hcaEnabled)
}

func disableHCA(d *Device, in, _ []byte) error {
	if err := ownFunction(in); err != nil {
		return err
	}
	return d.move("DISABLE_HCA", hcaEnabled, hcaDisabled)
}

func initHCA(d *Device, in, _ []byte) error {
	if n := bootPages + initPages; len(d.fw.pages) < n {
		return refuse(prm.StatusNoResources, "the driver has given %d pages, not %d", len(d.fw.pages), n)
	}
	return d.move("INIT_HCA", hcaEnabled, hcaRunning)
}

// teardownHCA destroys all remaining objects of the driver.
func teardownHCA(d *Device, in, _ []byte) error {
	if err := d.move("TEARDOWN_HCA", hcaRunning, hcaEnabled); err != nil {
		return err
	}
	fw := d.fw
	d.reset()
	d.fw = fw
	return nil
}

func queryISSI(d *Device, _, out []byte) error {
	prm.ISSI.Current.Set(out, d.fw.issi)
	prm.ISSI.Supported.Set(out, 1<<0|1<<1)
	return nil
}

func setISSI(d *Device, in, _ []byte) error {
	v := prm.ISSI.Current.Get(in)
	if v > 1 {
		return refuse(prm.StatusBadParam, "there is no ISSI %d", v)
	}
	d.fw.issi = v
	return nil
}

func queryPages(d *Device, in, out []byte) error {
	if err := ownFunction(in); err != nil {
		return err
	}
	n := -len(d.fw.pages)
	switch mod := prm.FunctionIn.OpMod.Get(in); mod {
	case prm.PagesBoot:
		n += bootPages
	case prm.PagesInit:
		n += bootPages + initPages
	case prm.PagesRegular:
		n = 0
	default:
		return refuse(prm.StatusBadParam, "QUERY_PAGES: there are no pages of kind %d", mod)
	}
	prm.QueryPagesOut.Pages.Set(out, uint64(uint32(int32(n))))
	return nil
}

func managePages(d *Device, in, out []byte) error {
	if prm.ManagePagesIn.Function.Is(in) {
		return refuse(prm.StatusBadParam, "MANAGE_PAGES: there is no function %d", prm.ManagePagesIn.Function.Get(in))
	}
	n := int(prm.ManagePagesIn.Entries.Get(in))
	switch mod := prm.ManagePagesIn.OpMod.Get(in); mod {
	case prm.PagesCannotGive:
		return nil
	case prm.PagesGive:
		return d.givePages(n, prm.ManagePagesIn.PAS.Of(in))
	case prm.PagesTake:
		return d.takePages(n, out)
	default:
		return refuse(prm.StatusBadParam, "MANAGE_PAGES: there is no operation %d", mod)
	}
}

// givePages accepts the driver's pages. It accepts all of them or none.
func (d *Device) givePages(n int, pas []byte) error {
	switch {
	case n > len(pas)/8:
		return refuse(prm.StatusBadParam, "MANAGE_PAGES: %d pages in a list of %d", n, len(pas)/8)
	case n > maxPages-len(d.fw.pages):
		return refuse(prm.StatusLimit, "MANAGE_PAGES: %d pages are more than the firmware can use", n)
	}
	given := make(map[uint64]bool, n)
	for i := range n {
		p := binary.BigEndian.Uint64(pas[8*i:])
		switch {
		case p%PageSize != 0 || d.mem.Bytes(p, PageSize) == nil:
			return refuse(prm.StatusBadParam, "MANAGE_PAGES: %#x is no page of the driver's", p)
		case d.fw.pages[p] || given[p]:
			return refuse(prm.StatusBadParam, "MANAGE_PAGES: page %#x is given twice", p)
		}
		given[p] = true
	}
	for p := range given {
		d.fw.pages[p] = true
	}
	return nil
}

// takePages returns up to n pages to the driver.
func (d *Device) takePages(n int, out []byte) error {
	pas := prm.ManagePagesOut.PAS.Of(out)
	n = min(n, len(d.fw.pages))
	if n > len(pas)/8 {
		return refuse(prm.StatusBadOutputLen, "MANAGE_PAGES: %d pages do not fit in a list of %d", n, len(pas)/8)
	}
	i := 0
	for p := range d.fw.pages {
		if i == n {
			break
		}
		binary.BigEndian.PutUint64(pas[8*i:], p)
		delete(d.fw.pages, p)
		i++
	}
	prm.ManagePagesOut.Entries.Set(out, uint64(n))
	return nil
}

// boardID identifies the kind of the card. Drivers call it PSID. No card has this one, so that reports do not take the
// model for a card.
const boardID = "PURERDMA_MODEL"

func queryAdapter(_ *Device, _, out []byte) error {
	prm.Adapter.IEEEVendorID.Set(out, 0x2c9)
	prm.Adapter.VSDVendorID.Set(out, uint64(identity.Vendor))
	copy(prm.Adapter.PSID.Of(out), boardID)
	return nil
}
