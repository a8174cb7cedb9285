// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"purerdma/test/connectx/prm"
)

// mod gives a command that has an operation and a word at 0x0c.
func (r *rig) mod(opcode uint16, opMod uint64, word uint64, tail []byte) ([]byte, error) {
	return r.command(opcode, 16, tail, func(in []byte) {
		prm.HeaderIn.OpMod.Set(in, opMod)
		prm.ManagePagesIn.Entries.Set(in, word)
	})
}

// pageList is n pages of the rig's memory.
func (r *rig) pageList(n int) []byte { return pages(r.alloc(n*PageSize), n*PageSize) }

// boot starts the device as a driver does.
func (r *rig) boot() {
	r.t.Helper()
	for _, err := range []error{
		r.on(prm.OpEnableHCA, 0), r.on(prm.OpSetISSI, 1), r.give(bootPages), r.give(initPages), r.on(prm.OpInitHCA, 0),
	} {
		if err != nil {
			r.t.Fatal(err)
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
			t.Fatal(err)
		}
		return int32(prm.QueryPagesOut.Pages.Get(out))
	}
	refused := func(what string, err error, want prm.Status) {
		t.Helper()
		if !errors.Is(err, statusError(want)) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	refused("a PD before the start", r.on(prm.OpAllocPD, 0), prm.StatusBadSysState)
	refused("INIT_HCA before the start", r.on(prm.OpInitHCA, 0), prm.StatusBadSysState)
	refused("another function", r.on(prm.OpEnableHCA, 1), prm.StatusBadParam)
	if err := r.on(prm.OpEnableHCA, 0); err != nil {
		t.Fatal(err)
	}
	refused("ENABLE_HCA twice", r.on(prm.OpEnableHCA, 0), prm.StatusBadSysState)
	out := r.must(prm.OpQueryISSI, 16, nil, nil)
	if prm.ISSI.Supported.Get(out) != 3 {
		t.Errorf("ISSIs %#x", prm.ISSI.Supported.Get(out))
	}
	refused("ISSI 2", r.on(prm.OpSetISSI, 2), prm.StatusBadParam)
	if n := needed(prm.PagesBoot); n != bootPages {
		t.Errorf("%d pages to boot", n)
	}
	if err := r.give(bootPages); err != nil {
		t.Fatal(err)
	}
	if n, m := needed(prm.PagesBoot), needed(prm.PagesInit); n != 0 || m != initPages {
		t.Errorf("after %d pages it needs %d, and %d", bootPages, n, m)
	}
	refused("INIT_HCA without pages", r.on(prm.OpInitHCA, 0), prm.StatusNoResources)
	if err := r.give(initPages); err != nil {
		t.Fatal(err)
	}
	refused("a PD before INIT_HCA", r.on(prm.OpAllocPD, 0), prm.StatusBadSysState)
	if err := r.on(prm.OpInitHCA, 0); err != nil {
		t.Fatal(err)
	}
	pd := r.object(prm.OpAllocPD)
	refused("DISABLE_HCA while it runs", r.on(prm.OpDisableHCA, 0), prm.StatusBadSysState)
	if err := r.on(prm.OpTeardownHCA, 0); err != nil {
		t.Fatal(err)
	}
	if _, there := r.d.pds.objects[pd]; there || r.d.fw.state != hcaEnabled {
		t.Error("TEARDOWN_HCA leaves objects, or the state")
	}
	if n := needed(prm.PagesInit); n != 0 {
		t.Errorf("after TEARDOWN_HCA it has not the pages: %d", n)
	}
	if err := r.on(prm.OpDisableHCA, 0); err != nil {
		t.Error(err)
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
			t.Errorf("%s: %v", tc.what, err)
		}
	}
	if len(r.d.fw.pages) != 0 {
		t.Errorf("%d pages were taken all the same", len(r.d.fw.pages))
	}
	if _, err := r.mod(prm.OpManagePages, prm.PagesGive, 4, list); err != nil {
		t.Fatal(err)
	}
	if _, err := r.mod(prm.OpManagePages, prm.PagesGive, 1, list); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("one again: %v", err)
	}
	if _, err := r.mod(prm.OpManagePages, 7, 1, list); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("operation 7: %v", err)
	}
	got := map[uint64]bool{}
	for _, want := range []int{3, 1, 0} {
		out, err := r.mod(prm.OpManagePages, prm.PagesTake, 3, nil)
		if err != nil || int(prm.ManagePagesOut.Entries.Get(out)) != want {
			t.Fatalf("%d pages come back, %v; want %d", prm.ManagePagesOut.Entries.Get(out), err, want)
		}
		for i := range want {
			got[binary.BigEndian.Uint64(prm.ManagePagesOut.PAS.Of(out)[8*i:])] = true
		}
	}
	for b := list; len(b) > 0; b = b[8:] {
		if !got[binary.BigEndian.Uint64(b)] {
			t.Errorf("page %#x did not come back", binary.BigEndian.Uint64(b))
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
				t.Errorf("group %d: %v", group, err)
			}
			for _, v := range capValues[group] {
				want := v.v
				if current == 1 && slices.Contains(offAtFirst[group], v.field) {
					want = 0
				}
				if got := v.field.Get(caps); got != want {
					t.Errorf("group %d, current %d: %v is %d, not %d", group, current, v.field, got, want)
				}
			}
		}
	}
	if _, err := query(0xffff); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("no such group: %v", err)
	}
	// As Linux: the general group with what it wants, and one field of the atomic one.
	caps, _ := query(1)
	prm.Cap.LogMaxQP.Set(caps, 12)
	prm.Cap.CacheLine128.Set(caps, 1)
	prm.Cap.UAR4K.Set(caps, 1)
	if err := set(0, caps); err != nil {
		t.Error(err)
	}
	one := make([]byte, prm.CapSize)
	prm.AtomicCap.Endianness.Set(one, 1)
	if err := set(uint64(prm.CapAtomic)<<1, one); err != nil {
		t.Error(err)
	}
	if caps, _ := query(1); prm.Cap.LogMaxQP.Get(caps) != 12 || !prm.Cap.UAR4K.Is(caps) {
		t.Error("the general group was not changed")
	}
	if caps, _ := query(uint64(prm.CapAtomic)<<1 | 1); prm.AtomicCap.Endianness.Get(caps) != 1 || !prm.AtomicCap.Operations.Is(caps) {
		t.Error("the atomic group was not changed in that one field")
	}
	prm.Cap.LogMaxQP.Set(caps, 18)
	if err := set(0, caps); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("more QPs than there can be: %v", err)
	}
	if err := set(uint64(prm.CapRoCE)<<1, one); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("a group of which nothing can be chosen: %v", err)
	}
	r.tolerant = true
	prm.Cap.LogMaxQP.Set(caps, 12)
	prm.Cap.NumPorts.Set(caps, 2)
	if err := set(0, caps); err != nil || len(r.violated()) != 1 {
		t.Errorf("another number of ports: %v, and not one violation", err)
	}
	if prm.Cap.NumPorts.Get(r.d.fw.caps[prm.CapGeneral]) != 1 {
		t.Error("the number of ports was changed")
	}
}
