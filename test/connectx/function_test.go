// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// busRig is a rig whose driver uses the PCI function.
type busRig struct {
	*rig
	f    *Function
	cmdq uint64
}

func newBusRig(t *testing.T) *busRig {
	r := &busRig{rig: newRig(t)}
	r.f = NewFunction(r.d)
	r.cmdq = r.alloc(PageSize)
	r.write32(0x10, uint32(r.cmdq>>32))
	r.write32(0x14, uint32(r.cmdq))
	return r
}

func (r *busRig) write32(off uint64, v uint32) {
	r.f.WriteRegion(0, off, binary.BigEndian.AppendUint32(nil, v))
}

func (r *busRig) read32(off uint64) uint32 {
	b := make([]byte, 4)
	r.f.ReadRegion(0, off, b)
	return binary.BigEndian.Uint32(b)
}

// entry fills an entry of the command queue, with mailboxes if needed.
func (r *busRig) entry(i int, in []byte, outLen int) []byte {
	e := r.bytes(r.cmdq+uint64(i)*64, 64)
	clear(e)
	token := byte(i + 1)
	prm.CommandEntry.Type.Set(e, prm.CommandEntryType)
	prm.CommandEntry.InLength.Set(e, uint64(len(in)))
	copy(prm.CommandEntry.In.Of(e), in)
	prm.CommandEntry.InMailbox.Set(e, r.boxes(in[min(16, len(in)):], token))
	prm.CommandEntry.OutLength.Set(e, uint64(outLen))
	prm.CommandEntry.OutMailbox.Set(e, r.boxes(bytes.Repeat([]byte{0xcc}, max(0, outLen-16)), token))
	prm.CommandEntry.Token.Set(e, uint64(token))
	prm.CommandEntry.Own.Set(e, 1)
	return e
}

// boxes returns the address of mailboxes that contain data.
func (r *busRig) boxes(data []byte, token byte) uint64 {
	first, last := uint64(0), []byte(nil)
	for i := 0; len(data) > 0; i++ {
		addr := r.alloc(prm.MailboxSize)
		b := r.bytes(addr, prm.MailboxSize)
		data = data[copy(prm.Mailbox.Data.Of(b), data):]
		prm.Mailbox.Block.Set(b, uint64(i))
		prm.Mailbox.Token.Set(b, uint64(token))
		if last == nil {
			first = addr
		} else {
			prm.Mailbox.Next.Set(last, addr)
		}
		last = b
	}
	return first
}

// answer returns the answer in an entry and its mailboxes, and its delivery status.
func (r *busRig) answer(e []byte, n int) ([]byte, prm.Delivery) {
	r.t.Helper()
	if prm.CommandEntry.Own.Is(e) {
		r.t.Fatal("the command was not executed")
	}
	out := append([]byte(nil), prm.CommandEntry.Out.Of(e)...)
	for addr := prm.CommandEntry.OutMailbox.Get(e); len(out) < n; {
		b := r.bytes(addr, prm.MailboxSize)
		out = append(out, prm.Mailbox.Data.Of(b)...)
		addr = prm.Mailbox.Next.Get(b)
	}
	return out[:max(16, n)], prm.Delivery(prm.CommandEntry.Status.Get(e))
}

func opcode(op uint16, n int) []byte {
	in := make([]byte, n)
	prm.HeaderIn.Opcode.Set(in, uint64(op))
	return in
}

func TestCommandQueue(t *testing.T) {
	r := newBusRig(t)
	r.boot()
	// Three at once. One has mailboxes for the answer, and one is rejected.
	caps := opcode(prm.OpQueryHCACap, 16)
	e0, e3, e31 := r.entry(0, opcode(prm.OpAllocPD, 12), 12), r.entry(3, caps, 16+prm.CapSize), r.entry(31, opcode(0xfff, 16), 16)
	r.write32(0x18, 1|1<<3|1<<31)
	if out, s := r.answer(e0, 12); s != prm.DeliveryOK || prm.ObjectOut.Number.Get(out) == 0 {
		t.Errorf("ALLOC_PD: %x, %d", out, s)
	}
	if out, s := r.answer(e3, 16+prm.CapSize); s != prm.DeliveryOK || !bytes.Equal(out[16:], greatestCaps[prm.CapGeneral]) {
		t.Errorf("QUERY_HCA_CAP: %x, %d", out[:64], s)
	}
	if out, s := r.answer(e31, 16); s != prm.DeliveryOK || prm.Status(prm.HeaderOut.Status.Get(out)) != prm.StatusBadOp {
		t.Errorf("command with an unknown opcode = %x, %d", out, s)
	}
	// A long input.
	give := append(opcode(prm.OpManagePages, 16), r.pageList(200)...)
	prm.HeaderIn.OpMod.Set(give, prm.PagesGive)
	prm.ManagePagesIn.Entries.Set(give, 200)
	e := r.entry(1, give, 16)
	had := len(r.d.fw.pages)
	r.write32(0x18, 2)
	if out, s := r.answer(e, 16); s != prm.DeliveryOK || prm.HeaderOut.Status.Is(out) || len(r.d.fw.pages) != had+200 {
		t.Errorf("MANAGE_PAGES: %x, %d", out, s)
	}
}

// TestCommandEvents checks that the creator and destroyer of the queue for these events gets
// none.
func TestCommandEvents(t *testing.T) {
	r := newBusRig(t)
	r.boot()
	uar := r.object(prm.OpAllocUAR)
	q := r.eq(uar, 2, prm.EventCommand)
	r.entry(4, opcode(prm.OpAllocPD, 16), 16)
	r.entry(5, opcode(prm.OpAllocPD, 16), 16)
	r.write32(0x18, 1<<4|1<<5)
	for _, bit := range []uint64{1 << 4, 1 << 5} {
		if v := r.next(q); v == nil || prm.EQE.Type.Get(v) != uint64(prm.EventCommand) || prm.EventVector.Get(prm.EQE.Data.Of(v)) != bit {
			t.Errorf("event = %x, want bit %#x", v, bit)
		}
	}
	destroy := opcode(prm.OpDestroyEQ, 16)
	prm.EQNumber.Set(destroy, uint64(q.n))
	e := r.entry(6, destroy, 16)
	r.write32(0x18, 1<<6)
	if out, s := r.answer(e, 16); s != prm.DeliveryOK || prm.HeaderOut.Status.Is(out) {
		t.Errorf("DESTROY_EQ: %x", out)
	}
	if v := r.next(q); v != nil {
		t.Errorf("DESTROY_EQ sent the event %x to the destroyed queue", v)
	}
}

func TestUndelivered(t *testing.T) {
	r := newBusRig(t)
	r.boot()
	r.tolerant = true
	long := opcode(prm.OpManagePages, 2000)
	for _, tc := range []struct {
		what  string
		spoil func(e, box []byte)
		want  prm.Delivery
	}{
		{"type", func(e, _ []byte) { prm.CommandEntry.Type.Set(e, 1) }, prm.DeliveryEntry},
		{"input too short", func(e, _ []byte) { prm.CommandEntry.InLength.Set(e, 4) }, prm.DeliveryInLength},
		{"input too long", func(e, _ []byte) { prm.CommandEntry.InLength.Set(e, MaxCommand+1) }, prm.DeliveryInLength},
		{"output too long", func(e, _ []byte) { prm.CommandEntry.OutLength.Set(e, 0xffffffff) }, prm.DeliveryOutLength},
		{"output too short", func(e, _ []byte) { prm.CommandEntry.OutLength.Set(e, 0) }, prm.DeliveryOutLength},
		{"no memory for the input", func(e, _ []byte) { prm.CommandEntry.InMailbox.Set(e, 1<<60) }, prm.DeliveryInPtr},
		{"no memory for more of it", func(_, b []byte) { prm.Mailbox.Next.Set(b, 8) }, prm.DeliveryInPtr},
		{"no memory for the output", func(e, _ []byte) { prm.CommandEntry.OutMailbox.Set(e, 0) }, prm.DeliveryOutPtr},
		{"token", func(_, b []byte) { prm.Mailbox.Token.Set(b, 99) }, prm.DeliveryToken},
		{"number", func(_, b []byte) { prm.Mailbox.Block.Set(b, 1) }, prm.DeliveryBlock},
		{"mailboxes in a circle", func(e, b []byte) { prm.Mailbox.Next.Set(b, prm.CommandEntry.InMailbox.Get(e)) }, prm.DeliveryBlock},
	} {
		e := r.entry(0, long, 700)
		tc.spoil(e, r.bytes(prm.CommandEntry.InMailbox.Get(e), prm.MailboxSize))
		r.write32(0x18, 1)
		if _, s := r.answer(e, 0); s != tc.want {
			t.Errorf("%s: delivery status %d, want %d", tc.what, s, tc.want)
		}
		if v := r.violated(); len(v) != 1 {
			t.Errorf("%s: violations %v", tc.what, v)
		}
	}
}

func TestDoorbellMistakes(t *testing.T) {
	r := newBusRig(t)
	r.tolerant = true
	for what, do := range map[string]func(){
		"not the device's": func() {
			e := r.entry(2, opcode(prm.OpEnableHCA, 16), 16)
			prm.CommandEntry.Own.Set(e, 0)
			r.write32(0x18, 4)
		},
		"driver has no memory":        func() { r.write32(0x10, 7); r.write32(0x18, 1); r.write32(0x10, 0) },
		"a store of 8 bytes":          func() { r.f.WriteRegion(0, 0x10, make([]byte, 8)) },
		"a store of 00000001 to 0x40": func() { r.write32(0x40, 1) },
		"where no register is":        func() { r.write32(0x7000, 1) },
		"no such page":                func() { r.write32(0x8800, 1) },
		"a store to it":               func() { r.f.WriteRegion(3, 0, []byte{1}) },
	} {
		do()
		if v := r.violated(); len(v) != 1 || !strings.Contains(v[0].Error(), what) {
			t.Errorf("%s: violations %v", what, v)
		}
	}
	if r.d.fw.state != hcaDisabled {
		t.Error("an invalid command was executed")
	}
}

func TestInitSegment(t *testing.T) {
	r := newBusRig(t)
	if v := r.read32(0); v != fwMinor<<16|fwMajor {
		t.Errorf("firmware version %#x", v)
	}
	if v := r.read32(4); v != cmdInterfaceRev<<16|fwSubminor {
		t.Errorf("interface and subminor version %#x", v)
	}
	if v := uint64(r.read32(0x10))<<32 | uint64(r.read32(0x14)); v != r.cmdq|logCommands<<4|logCommandStride {
		t.Errorf("command queue = %#x, want %#x", v, r.cmdq)
	}
	if v := r.read32(0x1fc); v != 1<<30 {
		t.Errorf("initializing = %#x, want initialized and resettable", v)
	}
	counter := r.read32(0x1010)
	time.Sleep(3 * time.Millisecond)
	if r.read32(0x1010) == counter {
		t.Error("the health counter does not change")
	}
	// Reads across registers, and at the end of the segment.
	b := make([]byte, 8)
	r.f.ReadRegion(0, 2, b)
	if binary.BigEndian.Uint16(b) != fwMajor || binary.BigEndian.Uint16(b[2:]) != cmdInterfaceRev {
		t.Errorf("read across registers = %x", b)
	}
	r.f.ReadRegion(0, initSegmentSize-4, b)
	r.f.ReadRegion(0, BARSize-8, b)
	if !bytes.Equal(b, make([]byte, 8)) {
		t.Errorf("read at the end of BAR 0 = %x, want zeros", b)
	}
}

// TestDisable checks that a driver that disables the device leaves no objects.
func TestDisable(t *testing.T) {
	r := newBusRig(t)
	r.boot()
	pd := r.object(prm.OpAllocPD)
	r.write32(0x14, uint32(r.cmdq)|prm.NICInterfaceDisabled<<8)
	if _, there := r.d.pds.objects[pd]; there || r.read32(0x14)>>8&7 != prm.NICInterfaceDisabled {
		t.Errorf("the PD still exists, or the interface = %#x", r.read32(0x14))
	}
	r.write32(0x14, uint32(r.cmdq))
	r.rig.used = 0
	r.boot()
	r.f.Reset()
	if r.d.fw.state != hcaDisabled || r.read32(0x14)>>12 != 0 {
		t.Error("a reset did not stop the device or clear its command queue")
	}
}

func TestConfigSpace(t *testing.T) {
	r := newBusRig(t)
	read := func(off uint64, n int) uint64 {
		b := make([]byte, 8)
		r.f.ReadRegion(pci.ConfigRegion, off, b[:n])
		return binary.LittleEndian.Uint64(b)
	}
	if v := read(0, 4); v != uint64(identity.Device)<<16|uint64(identity.Vendor) {
		t.Errorf("IDs = %#x", v)
	}
	if v := read(0x0a, 2); v != 0x0200 {
		t.Errorf("class = %#x", v)
	}
	seen := map[uint64]bool{}
	for at := read(0x34, 1); at != 0; at = read(at+1, 1) {
		if id := read(at, 1); seen[id] {
			t.Fatalf("capability %#x is listed twice", id)
		} else {
			seen[id] = true
		}
	}
	if !seen[0x01] || !seen[0x10] || !seen[0x11] {
		t.Errorf("capabilities = %v, want 0x01, 0x10 and 0x11", seen)
	}
	// The size of BAR 0, determined like a bus.
	r.f.WriteRegion(pci.ConfigRegion, 0x10, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	if v := read(0x10, 8); ^(v&^0xf)+1 != BARSize || v&0xf != 0xc {
		t.Errorf("BAR 0 = %#x", v)
	}
	r.f.WriteRegion(pci.ConfigRegion, 0, bytes.Repeat([]byte{0xff}, pci.ConfigSize))
	if v := read(0, 4); v != uint64(identity.Device)<<16|uint64(identity.Vendor) {
		t.Errorf("IDs after a write = %#x, want no change", v)
	}
	if v := read(4, 2); v != 0x0547 {
		t.Errorf("command register = %#x, want 0x547", v)
	}
	r.f.ReadRegion(pci.ConfigRegion, pci.ConfigSize, make([]byte, 4))
	r.f.WriteRegion(pci.ConfigRegion, pci.ConfigSize, nil)
	for index := range 12 {
		want := map[int]uint64{0: BARSize, pci.ConfigRegion: pci.ConfigSize}[index]
		if n := r.f.RegionSize(index); n != want {
			t.Errorf("RegionSize(%d) = %d", index, n)
		}
	}
	r.tolerant = true
}
