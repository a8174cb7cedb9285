// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"

	"purerdma/test/connectx/prm"
)

var capCommands = map[uint16]command{
	prm.OpQueryHCACap: {"QUERY_HCA_CAP", 16, 16 + prm.CapSize, queryHCACap},
	prm.OpSetHCACap:   {"SET_HCA_CAP", 16 + prm.CapSize, 16, setHCACap},
}

// capGroup returns the capability group of a command, and whether the command is for the
// current values instead of the maximum.
func capGroup(name string, in []byte) (t prm.CapType, current bool, err error) {
	mod := prm.HCACapIn.OpMod.Get(in)
	t, current = prm.CapType(mod>>1), mod&1 != 0
	if mod>>1 > 0xff || greatestCaps[t] == nil {
		return t, current, refuse(prm.StatusBadParam, "%s: there are no capabilities of group %#x", name, mod>>1)
	}
	return t, current, ownFunction(in)
}

func queryHCACap(d *Device, in, out []byte) error {
	t, current, err := capGroup("QUERY_HCA_CAP", in)
	if err != nil {
		return err
	}
	from := greatestCaps[t]
	if current {
		from = d.fw.caps[t]
	}
	copy(prm.HCACapIn.Caps.Of(out), from)
	return nil
}

// settable lists the capabilities of each group that a driver may set, up to the maximum. The
// driver must repeat the values of the others.
var settable = map[prm.CapType][]prm.Field{
	prm.CapGeneral: {
		prm.Cap.PKeyTableSize, prm.Cap.LogMaxQP, prm.Cap.CmdIFChecksum, prm.Cap.UAR4K, prm.Cap.CacheLine128,
		prm.Cap.LogUARPageSize, prm.Cap.DCT, prm.Cap.RoCE, prm.Cap.MaxNumEQs,
	},
	prm.CapAtomic: {prm.AtomicCap.Endianness},
}

// offAtFirst lists the capabilities that are off until the driver sets them. These are the
// host's byte order in atomics, and register pages of 4 KiB on a host with larger pages.
var offAtFirst = map[prm.CapType][]prm.Field{
	prm.CapGeneral: {prm.Cap.UAR4K},
	prm.CapAtomic:  {prm.AtomicCap.Endianness},
}

// setHCACap changes current capabilities before the device runs.
func setHCACap(d *Device, in, _ []byte) error {
	t, _, err := capGroup("SET_HCA_CAP", in)
	if err != nil {
		return err
	}
	fields := settable[t]
	if fields == nil {
		return refuse(prm.StatusBadParam, "SET_HCA_CAP: nothing of group %#x can be chosen", t)
	}
	if d.needsBoot && d.fw.state != hcaEnabled {
		return refuse(prm.StatusBadSysState, "SET_HCA_CAP: the device is %v, not %v", d.fw.state, hcaEnabled)
	}
	caps := prm.HCACapIn.Caps.Of(in)[:prm.CapSize]
	want := bytes.Clone(d.fw.caps[t])
	for _, f := range fields {
		if v := f.Get(caps); v > f.Get(greatestCaps[t]) && !always[f] {
			return refuse(prm.StatusBadParam, "SET_HCA_CAP: a value of %d in group %#x, the greatest is %d", v, t, f.Get(greatestCaps[t]))
		}
		f.Set(want, f.Get(caps))
	}
	// For atomic operations Linux sends only its setting, and zeros elsewhere.
	if t == prm.CapGeneral && !bytes.Equal(want, caps) {
		d.violation("SET_HCA_CAP", "group %#x differs from what is there in more than what can be chosen: %s", t, difference(want, caps))
	}
	d.fw.caps[t] = want
	return nil
}

// always lists the capabilities without a maximum that a driver may set.
var always = map[prm.Field]bool{prm.Cap.CacheLine128: true, prm.Cap.LogUARPageSize: true}
