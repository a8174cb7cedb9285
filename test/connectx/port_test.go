// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"purerdma/test/connectx/prm"
)

// register reads or writes a register of the port.
func (r *rig) register(id, op uint64, data []byte) ([]byte, error) {
	out, err := r.command(prm.OpAccessReg, 16, data, func(in []byte) {
		prm.AccessRegister.OpMod.Set(in, op)
		prm.AccessRegister.ID.Set(in, id)
	})
	return prm.AccessRegister.Data.Of(out)[:len(data)], err
}

// portRegister returns the data of a register that starts with the port's number.
func portRegister(n int) []byte {
	b := make([]byte, n)
	prm.LocalPort.Set(b, 1)
	return b
}

func TestRegisters(t *testing.T) {
	r := newRig(t)
	mtu, err := r.register(prm.RegPMTU, prm.RegisterRead, portRegister(0x10))
	if err != nil || prm.PMTU.Max.Get(mtu) != maxMTU || prm.LocalPort.Get(mtu) != 1 {
		t.Errorf("PMTU = %x, %v", mtu, err)
	}
	prm.PMTU.Admin.Set(mtu, 9000)
	if _, err := r.register(prm.RegPMTU, prm.RegisterWrite, mtu); err != nil {
		t.Errorf("r.register: %v", err)
	}
	if mtu, _ = r.register(prm.RegPMTU, prm.RegisterRead, portRegister(0x10)); prm.PMTU.Oper.Get(mtu) != 9000 {
		t.Errorf("MTU = %d, want 9000", prm.PMTU.Oper.Get(mtu))
	}
	prm.PMTU.Admin.Set(mtu, maxMTU+1)
	desc := bytes.Repeat([]byte("node"), 16)
	if _, err := r.register(prm.RegNodeDesc, prm.RegisterWrite, desc); err != nil {
		t.Errorf("r.register: %v", err)
	}
	if got, err := r.register(prm.RegNodeDesc, prm.RegisterRead, make([]byte, 64)); !bytes.Equal(got, desc) {
		t.Errorf("node description = %q, %v", got, err)
	}
	other := portRegister(0x10)
	prm.LocalPort.Set(other, 2)
	state := portRegister(0x10)
	prm.PAOS.Admin.Set(state, 4)
	for _, tc := range []struct {
		what   string
		id, op uint64
		data   []byte
		want   prm.Status
	}{
		{"an MTU that is too great", prm.RegPMTU, prm.RegisterWrite, mtu, prm.StatusBadParam},
		{"another port", prm.RegPMTU, prm.RegisterRead, other, prm.StatusBadParam},
		{"a state that is not there", prm.RegPAOS, prm.RegisterWrite, state, prm.StatusBadParam},
		{"what cannot be written", prm.RegPTYS, prm.RegisterWrite, portRegister(0x40), prm.StatusBadParam},
		{"what cannot be read", prm.RegHostEndianness, prm.RegisterRead, make([]byte, 16), prm.StatusBadParam},
		{"a register that is not there", 0x1234, prm.RegisterRead, make([]byte, 64), prm.StatusBadParam},
		{"half a register", prm.RegPMTU, prm.RegisterRead, portRegister(8), prm.StatusBadInputLength},
		{"no operation", prm.RegPMTU, 2, portRegister(16), prm.StatusBadParam},
	} {
		if _, err := r.register(tc.id, tc.op, tc.data); !errors.Is(err, statusError(tc.want)) {
			t.Errorf("%s: %v, want %v", tc.what, err, tc.want)
		}
	}
}

// TestPortState checks that the driver and the cable together determine the state, and that
// each change causes one event.
func TestPortState(t *testing.T) {
	r := newRig(t)
	q := r.eq(r.object(prm.OpAllocUAR), 0, prm.EventPortChange)
	admin := func(v uint64) {
		t.Helper()
		b := portRegister(0x10)
		prm.PAOS.Admin.Set(b, v)
		if _, err := r.register(prm.RegPAOS, prm.RegisterWrite, b); err != nil {
			t.Errorf("r.register: %v", err)
		}
	}
	for i, step := range []struct {
		do    func()
		event uint64 // 0 for none
		up    bool
	}{
		{func() {}, 0, true},
		{func() { r.d.SetPort(false) }, prm.PortDown, false},
		{func() { r.d.SetPort(false) }, 0, false},
		{func() { admin(prm.PAOSDown) }, 0, false},
		{func() { r.d.SetPort(true) }, 0, false},
		{func() { admin(prm.PAOSUp) }, prm.PortActive, true},
	} {
		step.do()
		v := r.next(q)
		if (v == nil) != (step.event == 0) || v != nil && (prm.EQE.SubType.Get(v) != step.event || prm.EventPort.Get(prm.EQE.Data.Of(v)) != 1) {
			t.Errorf("step %d: event = %x, want %d", i, v, step.event)
		}
		speed, _ := r.register(prm.RegPTYS, prm.RegisterRead, portRegister(0x40))
		paos, _ := r.register(prm.RegPAOS, prm.RegisterRead, portRegister(0x10))
		out := r.must(prm.OpQueryVportState, 16, nil, nil)
		if prm.PTYS.EthOper.Is(speed) != step.up || (prm.PAOS.Oper.Get(paos) == prm.PAOSUp) != step.up || (prm.VportState.State.Get(out) == prm.VportUp) != step.up {
			t.Errorf("step %d: registers %x and %x, vport %x; up should be %v", i, speed, paos, out[:16], step.up)
		}
	}
}

// vportContext changes the vport's context.
func (r *rig) vportContext(list []byte, fill func(in, context []byte)) error {
	_, err := r.command(prm.OpModifyNICVportContext, 0x200, list, func(in []byte) { fill(in, prm.ModifyNICVportIn.Context.Of(in)) })
	return err
}

// addresses returns entries of a list of MAC addresses.
func addresses(macs ...uint64) (b []byte) {
	for _, m := range macs {
		b = binary.BigEndian.AppendUint64(b, m)
	}
	return b
}

// setList sets a list of addresses of the vport.
func (r *rig) setList(kind uint64, macs ...uint64) error {
	return r.vportContext(addresses(macs...), func(in, c []byte) {
		prm.ModifyNICVportIn.List.Set(in, 1)
		prm.NICVport.ListType.Set(c, kind)
		prm.NICVport.ListSize.Set(c, uint64(len(macs)))
	})
}

func TestVport(t *testing.T) {
	r := newRig(t)
	mac := func(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v)[2:] }
	own := binary.BigEndian.Uint64(append(make([]byte, 2), r.d.mac[:]...))
	accepts := func(want bool, macs ...uint64) {
		t.Helper()
		for _, m := range macs {
			if r.d.fw.vport.accepts(mac(m)) != want {
				t.Errorf("accepts(%012x) = %v", m, !want)
			}
		}
	}
	accepts(true, own, 0xffffffffffff)
	accepts(false, own+1, 0x01005e000001, 0x333300000001)
	for kind, list := range [][]uint64{{own + 1, own + 2}, {0x333300000001}} {
		if err := r.setList(uint64(kind), list...); err != nil {
			t.Fatalf("r.setList: %v", err)
		}
		out := r.must(prm.OpQueryNICVportContext, 16, nil, func(in []byte) { prm.VportIn.ListType.Set(in, uint64(kind)) })
		c := prm.QueryNICVportOut.Context.Of(out)
		if n := int(prm.NICVport.ListSize.Get(c)); n != len(list) || !bytes.Equal(prm.QueryNICVportOut.List.Of(out)[:8*n], addresses(list...)) {
			t.Errorf("list %d = %d addresses, %x", kind, n, prm.QueryNICVportOut.List.Of(out)[:16])
		}
	}
	accepts(true, own+1, own+2, 0x333300000001)
	accepts(false, own+3, 0x01005e000001)
	promisc := func(f prm.Field, v uint64) {
		if err := r.vportContext(nil, func(in, c []byte) { prm.ModifyNICVportIn.Promisc.Set(in, 1); f.Set(c, v) }); err != nil {
			t.Errorf("r.vportContext: %v", err)
		}
	}
	promisc(prm.NICVport.PromiscMC, 1)
	accepts(true, 0x01005e000001)
	accepts(false, own+3)
	promisc(prm.NICVport.PromiscAll, 1)
	accepts(true, own+3)
	promisc(prm.NICVport.PromiscAll, 0)
	accepts(false, own+3, 0x01005e000001)
	// Fields that are not selected remain unchanged.
	if err := r.vportContext(nil, func(in, c []byte) {
		prm.ModifyNICVportIn.MTU.Set(in, 1)
		prm.NICVport.MTU.Set(c, 4000)
		prm.NICVport.NodeGUID.Set(c, 1)
	}); err != nil {
		t.Errorf("r.vportContext: %v", err)
	}
	if c := r.d.fw.vport.context[:]; prm.NICVport.MTU.Get(c) != 4000 || prm.NICVport.NodeGUID.Get(c) == 1 {
		t.Errorf("context = %x", c)
	}
}

func TestVportMistakes(t *testing.T) {
	r := newRig(t)
	for what, tc := range map[string]struct {
		err  error
		want prm.Status
	}{
		"a list longer than said": {r.vportContext(nil, func(in, c []byte) {
			prm.ModifyNICVportIn.List.Set(in, 1)
			prm.NICVport.ListSize.Set(c, 3)
		}), prm.StatusBadInputLength},
		"a list that is too long":  {r.setList(prm.ListUnicast, make([]uint64, 1<<logMaxUCList+1)...), prm.StatusBadParam},
		"a list that is not there": {r.setList(3), prm.StatusBadParam},
		"another vport":            {r.vportContext(nil, func(in, _ []byte) { prm.ModifyNICVportIn.Vport.Set(in, 1) }), prm.StatusBadParam},
		"headers inline": {r.vportContext(nil, func(in, c []byte) {
			prm.ModifyNICVportIn.MinInline.Set(in, 1)
			prm.NICVport.MinWQEInline.Set(c, 1)
		}), prm.StatusBadParam},
	} {
		if !errors.Is(tc.err, statusError(tc.want)) {
			t.Errorf("%s: %v, want %v", what, tc.err, tc.want)
		}
	}
	for _, op := range []uint16{prm.OpQueryVportState, prm.OpModifyVportState, prm.OpQueryNICVportContext} {
		if _, err := r.command(op, 16, nil, func(in []byte) { prm.VportIn.Other.Set(in, 1) }); !errors.Is(err, statusError(prm.StatusBadParam)) {
			t.Errorf("%s of another vport = %v, want BAD_PARAM", CommandName(op), err)
		}
	}
}

func TestPKey(t *testing.T) {
	r := newRig(t)
	pkey := func(i uint64) (uint64, error) {
		out, err := r.command(prm.OpQueryHCAVportPKey, 16, nil, func(in []byte) { prm.PKeyIn.Index.Set(in, i) })
		return prm.PKeyOut.PKey.Get(out), err
	}
	if v, err := pkey(0); v != 0xffff || err != nil {
		t.Errorf("P_Key 0 = %#x, %v, want 0xffff", v, err)
	}
	if _, err := pkey(1); !errors.Is(err, statusError(prm.StatusBadIndex)) {
		t.Errorf("P_Key 1 = %v, want BAD_INDEX", err)
	}
}
