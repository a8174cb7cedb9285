// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"purerdma/test/connectx/prm"
)

// mod issues a command with an operation modifier and a word at 0x0c.
func (r *rig) mod(opcode uint16, opMod uint64, word uint64, tail []byte) ([]byte, error) {
	return r.command(opcode, 16, tail, func(in []byte) {
		prm.HeaderIn.OpMod.Set(in, opMod)
		prm.ManagePagesIn.Entries.Set(in, word)
	})
}

// pageList returns n pages of the rig's memory.
func (r *rig) pageList(n int) []byte { return pages(r.alloc(n*PageSize), n*PageSize) }

// boot starts the device like a driver.
func (r *rig) boot() {
	r.t.Helper()
	for _, err := range []error{
		r.on(prm.OpEnableHCA, 0), r.on(prm.OpSetISSI, 1), r.give(bootPages), r.give(initPages), r.on(prm.OpInitHCA, 0),
	} {
		if err != nil {
			r.t.Fatalf("boot: %v", err)
		}
	}
}

func (r *rig) give(n int) error {
	_, err := r.mod(prm.OpManagePages, prm.PagesGive, uint64(n), r.pageList(n))
	return err
}

func TestBoot(t *testing.T) {
	r := newRig(t)
	NewFunction(r.d)
	needed := func(kind uint64) int32 {
		t.Helper()
		out, err := r.mod(prm.OpQueryPages, kind, 0, nil)
		if err != nil {
			t.Fatalf("r.mod(OpQueryPages): %v", err)
		}
		return int32(prm.QueryPagesOut.Pages.Get(out))
	}
	refused := func(what string, err error, want prm.Status) {
		t.Helper()
		if !errors.Is(err, statusError(want)) {
			t.Errorf("%s = %v, want %v", what, err, want)
		}
	}
	refused("a PD before the start", r.on(prm.OpAllocPD, 0), prm.StatusBadSysState)
	refused("INIT_HCA before the start", r.on(prm.OpInitHCA, 0), prm.StatusBadSysState)
	refused("another function", r.on(prm.OpEnableHCA, 1), prm.StatusBadParam)
	if err := r.on(prm.OpEnableHCA, 0); err != nil {
		t.Fatalf("r.on(OpEnableHCA): %v", err)
	}
	refused("ENABLE_HCA twice", r.on(prm.OpEnableHCA, 0), prm.StatusBadSysState)
	out := r.must(prm.OpQueryISSI, 16, nil, nil)
	if prm.ISSI.Supported.Get(out) != 3 {
		t.Errorf("QUERY_ISSI = %#x, want 3", prm.ISSI.Supported.Get(out))
	}
	refused("ISSI 2", r.on(prm.OpSetISSI, 2), prm.StatusBadParam)
	if n := needed(prm.PagesBoot); n != bootPages {
		t.Errorf("QUERY_PAGES for boot = %d, want the boot pages", n)
	}
	if err := r.give(bootPages); err != nil {
		t.Fatalf("r.give: %v", err)
	}
	if n, m := needed(prm.PagesBoot), needed(prm.PagesInit); n != 0 || m != initPages {
		t.Errorf("QUERY_PAGES after %d pages = %d for boot, %d for init", bootPages, n, m)
	}
	refused("INIT_HCA without pages", r.on(prm.OpInitHCA, 0), prm.StatusNoResources)
	if err := r.give(initPages); err != nil {
		t.Fatalf("r.give: %v", err)
	}
	refused("a PD before INIT_HCA", r.on(prm.OpAllocPD, 0), prm.StatusBadSysState)
	if err := r.on(prm.OpInitHCA, 0); err != nil {
		t.Fatalf("r.on(OpInitHCA): %v", err)
	}
	pd := r.object(prm.OpAllocPD)
	refused("DISABLE_HCA while it runs", r.on(prm.OpDisableHCA, 0), prm.StatusBadSysState)
	if err := r.on(prm.OpTeardownHCA, 0); err != nil {
		t.Fatalf("r.on(OpTeardownHCA): %v", err)
	}
	if _, there := r.d.pds.objects[pd]; there || r.d.fw.state != hcaEnabled {
		t.Error("TEARDOWN_HCA left objects, or did not change the state")
	}
	if n := needed(prm.PagesInit); n != 0 {
		t.Errorf("QUERY_PAGES after TEARDOWN_HCA = %d, want 0", n)
	}
	if err := r.on(prm.OpDisableHCA, 0); err != nil {
		t.Errorf("r.on(OpDisableHCA): %v", err)
	}
}

func TestPages(t *testing.T) {
	r := newRig(t)
	list := r.pageList(4)
	word := func(addr uint64) []byte { return binary.BigEndian.AppendUint64(nil, addr) }
	for _, tc := range []struct {
		what string
		n    uint64
		tail []byte
		want prm.Status
	}{
		{"more than the list", 5, list, prm.StatusBadParam},
		{"far more than the list", 1 << 31, list, prm.StatusBadParam},
		{"half a page", 1, word(memoryBase + 0x800), prm.StatusBadParam},
		{"what is not there", 1, word(1 << 40), prm.StatusBadParam},
		{"one twice", 2, append(list[:8:8], list[:8]...), prm.StatusBadParam},
	} {
		if _, err := r.mod(prm.OpManagePages, prm.PagesGive, tc.n, tc.tail); !errors.Is(err, statusError(tc.want)) {
			t.Errorf("MANAGE_PAGES with %s = %v", tc.what, err)
		}
	}
	if len(r.d.fw.pages) != 0 {
		t.Errorf("rejected commands added %d pages", len(r.d.fw.pages))
	}
	if _, err := r.mod(prm.OpManagePages, prm.PagesGive, 4, list); err != nil {
		t.Fatalf("r.mod(OpManagePages): %v", err)
	}
	if _, err := r.mod(prm.OpManagePages, prm.PagesGive, 1, list); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("MANAGE_PAGES with a page twice = %v, want BAD_PARAM", err)
	}
	if _, err := r.mod(prm.OpManagePages, 7, 1, list); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("MANAGE_PAGES with operation 7 = %v, want BAD_PARAM", err)
	}
	got := map[uint64]bool{}
	for _, want := range []int{3, 1, 0} {
		out, err := r.mod(prm.OpManagePages, prm.PagesTake, 3, nil)
		if err != nil || int(prm.ManagePagesOut.Entries.Get(out)) != want {
			t.Fatalf("MANAGE_PAGES returned %d pages, %v, want %d", prm.ManagePagesOut.Entries.Get(out), err, want)
		}
		for i := range want {
			got[binary.BigEndian.Uint64(prm.ManagePagesOut.PAS.Of(out)[8*i:])] = true
		}
	}
	for b := list; len(b) > 0; b = b[8:] {
		if !got[binary.BigEndian.Uint64(b)] {
			t.Errorf("MANAGE_PAGES returned page %#x, which was not provided", binary.BigEndian.Uint64(b))
		}
	}
}

func TestCapabilities(t *testing.T) {
	r := newRig(t)
	query := func(op uint64) ([]byte, error) {
		in := make([]byte, 16)
		prm.HeaderIn.Opcode.Set(in, prm.OpQueryHCACap)
		prm.HeaderIn.OpMod.Set(in, op)
		out := r.d.Exec(in, 16+prm.CapSize)
		if s := prm.Status(prm.HeaderOut.Status.Get(out)); s != prm.StatusOK {
			return nil, statusError(s)
		}
		return out[16:], nil
	}
	set := func(op uint64, caps []byte) error {
		_, err := r.command(prm.OpSetHCACap, 16, caps, func(in []byte) { prm.HeaderIn.OpMod.Set(in, op) })
		return err
	}
	for group := range prm.CapType(16) {
		for current := range uint64(2) {
			caps, err := query(uint64(group)<<1 | current)
			if _, there := greatestCaps[group]; there != (err == nil) {
				t.Errorf("QUERY_HCA_CAP of group %d = %v", group, err)
			}
			for _, v := range capValues[group] {
				want := v.v
				if current == 1 && slices.Contains(offAtFirst[group], v.field) {
					want = 0
				}
				if got := v.field.Get(caps); got != want {
					t.Errorf("QUERY_HCA_CAP of group %d, current %d: %v = %d, want %d", group, current, v.field, got, want)
				}
			}
		}
	}
	if _, err := query(0xffff); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("QUERY_HCA_CAP of a missing group = %v, want BAD_PARAM", err)
	}
	// Like Linux, set the general group, and one field of the atomic group.
	caps, _ := query(1)
	prm.Cap.LogMaxQP.Set(caps, 12)
	prm.Cap.CacheLine128.Set(caps, 1)
	prm.Cap.UAR4K.Set(caps, 1)
	if err := set(0, caps); err != nil {
		t.Errorf("set: %v", err)
	}
	one := make([]byte, prm.CapSize)
	prm.AtomicCap.Endianness.Set(one, 1)
	if err := set(uint64(prm.CapAtomic)<<1, one); err != nil {
		t.Errorf("set: %v", err)
	}
	if caps, _ := query(1); prm.Cap.LogMaxQP.Get(caps) != 12 || !prm.Cap.UAR4K.Is(caps) {
		t.Error("SET_HCA_CAP did not change the general group")
	}
	if caps, _ := query(uint64(prm.CapAtomic)<<1 | 1); prm.AtomicCap.Endianness.Get(caps) != 1 || !prm.AtomicCap.Operations.Is(caps) {
		t.Error("SET_HCA_CAP did not change only one field of the atomic group")
	}
	prm.Cap.LogMaxQP.Set(caps, 18)
	if err := set(0, caps); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("SET_HCA_CAP with too many QPs = %v, want BAD_PARAM", err)
	}
	if err := set(uint64(prm.CapRoCE)<<1, one); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("SET_HCA_CAP of a constant group = %v, want BAD_PARAM", err)
	}
	r.tolerant = true
	prm.Cap.LogMaxQP.Set(caps, 12)
	prm.Cap.NumPorts.Set(caps, 2)
	if err := set(0, caps); err != nil || len(r.violated()) != 1 {
		t.Errorf("SET_HCA_CAP with another number of ports = %v, want one violation", err)
	}
	if prm.Cap.NumPorts.Get(r.d.fw.caps[prm.CapGeneral]) != 1 {
		t.Error("SET_HCA_CAP changed the number of ports")
	}
}
