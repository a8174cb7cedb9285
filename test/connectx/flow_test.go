// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"errors"
	"testing"

	"purerdma/test/connectx/prm"
	"purerdma/test/ethernet"
)

// to is the target of an entry.
type to struct {
	kind   uint64
	number uint32
}

// table creates a flow table of 16 entries. miss is the table for other frames, 0 for none.
func (r *rig) table(miss uint32) uint32 {
	r.t.Helper()
	out := r.must(prm.OpCreateFlowTable, 0x40, nil, func(in []byte) {
		c := prm.FlowIn.TableContext.Of(in)
		prm.FlowTable.LogSize.Set(c, 4)
		if miss != 0 {
			prm.FlowTable.MissAction.Set(c, prm.MissTable)
			prm.FlowTable.MissTable.Set(c, uint64(miss))
		}
	})
	return uint32(prm.ObjectOut.Number.Get(out))
}

// flowCommand issues a command on a table.
func (r *rig) flowCommand(op uint16, n int, tail []byte, table uint32, fill func(in []byte)) ([]byte, error) {
	return r.command(op, n, tail, func(in []byte) {
		prm.FlowIn.Table.Set(in, uint64(table))
		if fill != nil {
			fill(in)
		}
	})
}

func (r *rig) setRoot(table uint32) {
	r.t.Helper()
	if _, err := r.flowCommand(prm.OpSetFlowTableRoot, 0x40, nil, table, nil); err != nil {
		r.t.Fatalf("r.flowCommand(OpSetFlowTableRoot): %v", err)
	}
}

func (r *rig) tryGroup(table, start, end uint32, mask func(m []byte)) (uint32, error) {
	out, err := r.flowCommand(prm.OpCreateFlowGroup, 0x400, nil, table, func(in []byte) {
		prm.FlowIn.StartIndex.Set(in, uint64(start))
		prm.FlowIn.EndIndex.Set(in, uint64(end))
		if mask != nil {
			prm.FlowIn.MatchEnable.Set(in, prm.MatchOuter)
			mask(prm.FlowIn.MatchMask.Of(in))
		}
	})
	return uint32(prm.ObjectOut.Number.Get(out)), err
}

func (r *rig) group(table, start, end uint32, mask func(m []byte)) uint32 {
	r.t.Helper()
	n, err := r.tryGroup(table, start, end, mask)
	if err != nil {
		r.t.Fatalf("r.tryGroup: %v", err)
	}
	return n
}

func (r *rig) tryEntry(table, group, index uint32, action uint64, match func(m []byte), dest ...to) error {
	list := make([]byte, prm.DestinationSize*len(dest))
	for i, d := range dest {
		prm.Destination.Type.Set(list[8*i:], d.kind)
		prm.Destination.Number.Set(list[8*i:], uint64(d.number))
	}
	_, err := r.flowCommand(prm.OpSetFlowTableEntry, 0x40+prm.FlowSize, list, table, func(in []byte) {
		prm.FlowIn.Index.Set(in, uint64(index))
		c := prm.FlowIn.Flow.Of(in)
		prm.Flow.Group.Set(c, uint64(group))
		prm.Flow.Action.Set(c, action)
		prm.Flow.Destinations.Set(c, uint64(len(dest)))
		if match != nil {
			match(prm.Flow.Match.Of(c))
		}
	})
	return err
}

func (r *rig) entry(table, group, index uint32, action uint64, match func(m []byte), dest ...to) {
	r.t.Helper()
	if err := r.tryEntry(table, group, index, action, match, dest...); err != nil {
		r.t.Fatalf("r.tryEntry: %v", err)
	}
}

// TestSteering covers the order of entries, chained tables, several destinations, frames
// without a matching entry, and a cycle of tables.
func TestSteering(t *testing.T) {
	f := NewFabric()
	a, b := newPortOn(t, f, 1), newPortOn(t, f, 2)
	udp, tcp, any, copied := b.rq(8, nil), b.rq(8, nil), b.rq(8, nil), b.rq(8, nil)
	rest := b.table(0)
	first := b.table(rest)
	second := b.table(0)
	b.setRoot(first)
	b.entry(rest, b.group(rest, 3, 3, nil), 3, prm.FlowForward, nil, to{prm.DestinationTIR, b.tir(nil, any)})
	proto := func(v uint64) func(m []byte) {
		return func(m []byte) { prm.Match.IPProtocol.Set(m, v) }
	}
	g := b.group(first, 0, 3, proto(0xff))
	port := func(v uint64) func(m []byte) { return func(m []byte) { prm.Match.UDPDport.Set(m, v) } }
	drop := b.group(first, 4, 7, port(0xffff))
	b.entry(first, g, 2, prm.FlowForward, proto(ethernet.UDP), to{prm.DestinationTIR, b.tir(nil, udp)}, to{prm.DestinationTIR, b.tir(nil, copied)})
	b.entry(first, g, 1, prm.FlowForward, proto(ethernet.TCP), to{prm.DestinationTable, second})
	b.entry(first, drop, 4, prm.FlowDrop, port(7))
	b.entry(second, b.group(second, 0, 0, nil), 0, prm.FlowForward, nil, to{prm.DestinationTIR, b.tir(nil, tcp)})
	send := func(proto byte, dport byte) {
		frame := a.frame(b, proto, []byte("steer"))
		frame[14+20+3] = dport
		a.post(prm.WQESend, nil, nil, frame)
		a.sent(0)
	}
	got := func(want ...*testRQ) {
		t.Helper()
		for _, r := range b.rqs {
			for range want {
				if len(want) > 0 && want[0] == r {
					if frame, _ := r.next(); frame == nil {
						t.Errorf("queue %#x got no frame", r.n)
					}
					want = want[1:]
				}
			}
			if frame, _ := r.next(); frame != nil {
				t.Errorf("queue %#x got %x, want no frame", r.n, frame)
			}
		}
	}
	send(ethernet.UDP, 53)
	got(udp, copied)
	send(ethernet.TCP, 53)
	got(tcp)
	send(1, 53) // ICMP
	got(any)
	// The entry with the lower index applies first.
	send(ethernet.UDP, 7)
	got(udp, copied)
	if _, err := b.flowCommand(prm.OpDeleteFlowTableEntry, 0x40, nil, first, func(in []byte) { prm.FlowIn.Index.Set(in, 2) }); err != nil {
		t.Fatalf("b.flowCommand(OpDeleteFlowTableEntry): %v", err)
	}
	send(ethernet.UDP, 7)
	got()
	send(ethernet.UDP, 8)
	got(any)
	// Frames in a cycle are lost, and the look-up ends.
	if _, err := b.flowCommand(prm.OpModifyFlowTable, 0x40, nil, second, func(in []byte) {
		prm.FlowIn.ModifySelect.Set(in, prm.ModifyMissTable)
		c := prm.FlowIn.TableContext.Of(in)
		prm.FlowTable.MissAction.Set(c, prm.MissTable)
		prm.FlowTable.MissTable.Set(c, uint64(first))
	}); err != nil {
		t.Fatalf("b.flowCommand(OpModifyFlowTable): %v", err)
	}
	if _, err := b.flowCommand(prm.OpSetFlowTableEntry, 0x40+prm.FlowSize, be.AppendUint64(nil, 1<<56|uint64(first)<<32), second, func(in []byte) {
		prm.HeaderIn.OpMod.Set(in, 1)
		prm.FlowIn.ModifyMask.Set(in, prm.ModifyFlowList)
		c := prm.FlowIn.Flow.Of(in)
		prm.Flow.Group.Set(c, 1)
		prm.Flow.Action.Set(c, prm.FlowForward)
		prm.Flow.Destinations.Set(c, 1)
	}); err != nil {
		t.Fatalf("b.flowCommand(OpSetFlowTableEntry): %v", err)
	}
	send(ethernet.TCP, 53)
	got()
	// Without a root.
	if _, err := b.flowCommand(prm.OpSetFlowTableRoot, 0x40, nil, 0, func(in []byte) { prm.HeaderIn.OpMod.Set(in, prm.RootDisconnect) }); err != nil {
		t.Fatalf("b.flowCommand(OpSetFlowTableRoot): %v", err)
	}
	send(ethernet.UDP, 53)
	got()
}

// TestDestroyRoot destroys the root table. This must fail without effect while an entry refers
// to the table.
func TestDestroyRoot(t *testing.T) {
	f := NewFabric()
	a, b := newPortOn(t, f, 1), newPortOn(t, f, 2)
	r := b.rq(2, nil)
	root, other := b.table(0), b.table(0)
	b.setRoot(root)
	g := b.group(other, 0, 0, nil)
	b.entry(other, g, 0, prm.FlowForward, nil, to{prm.DestinationTable, root})
	destroy := func() error { _, err := b.flowCommand(prm.OpDestroyFlowTable, 0x40, nil, root, nil); return err }
	if err := destroy(); !errors.Is(err, statusError(prm.StatusResourceBusy)) {
		t.Errorf("DESTROY_FLOW_TABLE of a table in use = %v, want RESOURCE_BUSY", err)
	}
	all := b.group(root, 0, 0, nil)
	b.entry(root, all, 0, prm.FlowForward, nil, to{prm.DestinationTIR, b.tir(nil, r)})
	a.post(prm.WQESend, nil, nil, a.frame(b, ethernet.UDP, []byte("x")))
	if frame, _ := r.next(); frame == nil {
		t.Error("the root was destroyed")
	}
	for _, del := range []struct {
		op    uint16
		table uint32
	}{{prm.OpDeleteFlowTableEntry, other}, {prm.OpDeleteFlowTableEntry, root}} {
		if _, err := b.flowCommand(del.op, 0x40, nil, del.table, nil); err != nil {
			t.Fatalf("b.flowCommand: %v", err)
		}
	}
	if _, err := b.flowCommand(prm.OpDestroyFlowGroup, 0x40, nil, root, func(in []byte) { prm.FlowIn.Group.Set(in, uint64(all)) }); err != nil {
		t.Fatalf("b.flowCommand(OpDestroyFlowGroup): %v", err)
	}
	if err := destroy(); err != nil {
		t.Errorf("destroy: %v", err)
	}
}

func TestFlowMistakes(t *testing.T) {
	p := newPortOn(t, nil, 1)
	tir := p.tir(nil, p.rq(0, nil))
	table, other := p.table(0), p.table(0)
	g := p.group(table, 0, 3, func(m []byte) { prm.Match.EtherType.Set(m, 0xffff) })
	p.entry(table, g, 0, prm.FlowForward, nil, to{prm.DestinationTIR, tir}, to{prm.DestinationTable, other})
	second := func(_ uint32, err error) error { return err }
	command := func(op uint16, n int, table uint32, fill func(in []byte)) error {
		_, err := p.flowCommand(op, n, nil, table, fill)
		return err
	}
	for what, tc := range map[string]struct {
		err  error
		want prm.Status
	}{
		"table of another type":          {command(prm.OpCreateFlowTable, 0x40, 0, func(in []byte) { prm.FlowIn.TableType.Set(in, 1) }), prm.StatusBadParam},
		"table that is too great":        {command(prm.OpCreateFlowTable, 0x40, 0, func(in []byte) { prm.FlowTable.LogSize.Set(prm.FlowIn.TableContext.Of(in), 30) }), prm.StatusBadParam},
		"table of a level that is not":   {command(prm.OpCreateFlowTable, 0x40, 0, func(in []byte) { prm.FlowTable.Level.Set(prm.FlowIn.TableContext.Of(in), 200) }), prm.StatusBadParam},
		"table with groups":              {command(prm.OpDestroyFlowTable, 0x40, table, nil), prm.StatusResourceBusy},
		"table that an entry leads to":   {command(prm.OpDestroyFlowTable, 0x40, other, nil), prm.StatusResourceBusy},
		"table that is not there":        {command(prm.OpDestroyFlowTable, 0x40, 999, nil), prm.StatusBadResource},
		"root that is not there":         {command(prm.OpSetFlowTableRoot, 0x40, 999, nil), prm.StatusBadResource},
		"change of what cannot be":       {command(prm.OpModifyFlowTable, 0x40, table, func(in []byte) { prm.FlowIn.ModifySelect.Set(in, 0x8000) }), prm.StatusBadParam},
		"group over another":             {second(p.tryGroup(table, 3, 5, nil)), prm.StatusBadParam},
		"group beyond the table":         {second(p.tryGroup(table, 15, 16, nil)), prm.StatusBadParam},
		"group from behind":              {second(p.tryGroup(table, 9, 8, nil)), prm.StatusBadParam},
		"group of bits that are not":     {second(p.tryGroup(table, 9, 9, func(m []byte) { m[0x18] = 1 })), prm.StatusBadParam},
		"group of inner headers":         {command(prm.OpCreateFlowGroup, 0x400, table, func(in []byte) { prm.FlowIn.MatchEnable.Set(in, 4) }), prm.StatusBadParam},
		"group in use":                   {command(prm.OpDestroyFlowGroup, 0x40, table, func(in []byte) { prm.FlowIn.Group.Set(in, uint64(g)) }), prm.StatusResourceBusy},
		"group that is not there":        {command(prm.OpDestroyFlowGroup, 0x40, table, func(in []byte) { prm.FlowIn.Group.Set(in, 99) }), prm.StatusBadResource},
		"entry that is there":            {p.tryEntry(table, g, 0, prm.FlowDrop, nil), prm.StatusBadResState},
		"entry outside its group":        {p.tryEntry(table, g, 4, prm.FlowDrop, nil), prm.StatusBadIndex},
		"entry of no group":              {p.tryEntry(table, 99, 1, prm.FlowDrop, nil), prm.StatusBadResource},
		"entry to no TIR":                {p.tryEntry(table, g, 1, prm.FlowForward, nil, to{prm.DestinationTIR, tir + 1}), prm.StatusBadResource},
		"entry to no table":              {p.tryEntry(table, g, 1, prm.FlowForward, nil, to{prm.DestinationTable, 99}), prm.StatusBadResource},
		"entry to a vport":               {p.tryEntry(table, g, 1, prm.FlowForward, nil, to{prm.DestinationVport, 0}), prm.StatusBadParam},
		"entry that does what it cannot": {p.tryEntry(table, g, 1, 1<<12, nil), prm.StatusBadParam},
		"entry with a list cut off": {command(prm.OpSetFlowTableEntry, 0x40+prm.FlowSize, table, func(in []byte) {
			prm.FlowIn.Index.Set(in, 1)
			prm.Flow.Group.Set(prm.FlowIn.Flow.Of(in), uint64(g))
			prm.Flow.Destinations.Set(prm.FlowIn.Flow.Of(in), 200)
		}), prm.StatusBadInputLength},
		"change of no entry":      {command(prm.OpSetFlowTableEntry, 0x40+prm.FlowSize, table, func(in []byte) { prm.HeaderIn.OpMod.Set(in, 1); prm.FlowIn.Index.Set(in, 1) }), prm.StatusBadResource},
		"end of no entry":         {command(prm.OpDeleteFlowTableEntry, 0x40, table, func(in []byte) { prm.FlowIn.Index.Set(in, 9) }), prm.StatusBadResource},
		"TIR that an entry needs": {p.on(prm.OpDestroyTIR, tir), prm.StatusResourceBusy},
	} {
		if !errors.Is(tc.err, statusError(tc.want)) {
			t.Errorf("%s: %v, want %v", what, tc.err, tc.want)
		}
	}
	if err := command(prm.OpDeleteFlowTableEntry, 0x40, table, nil); err != nil {
		t.Errorf("command(OpDeleteFlowTableEntry): %v", err)
	}
	if err := command(prm.OpDestroyFlowGroup, 0x40, table, func(in []byte) { prm.FlowIn.Group.Set(in, uint64(g)) }); err != nil {
		t.Errorf("command(OpDestroyFlowGroup): %v", err)
	}
	for _, n := range []uint32{table, other} {
		if err := command(prm.OpDestroyFlowTable, 0x40, n, nil); err != nil {
			t.Errorf("command(OpDestroyFlowTable): %v", err)
		}
	}
	if err := p.on(prm.OpDestroyTIR, tir); err != nil {
		t.Errorf("p.on(OpDestroyTIR): %v", err)
	}
}

func TestInterfaceMistakes(t *testing.T) {
	p := newPortOn(t, nil, 1)
	r := p.rq(0, nil)
	tir := p.tir(func(c []byte) { prm.TIRC.HashFunction.Set(c, prm.HashXOR8) }, r, r)
	create := func(op uint16, size int, tail []byte, change func(c []byte)) error {
		_, err := p.command(op, 0x20+size, tail, func(in []byte) { change(prm.CreateContextIn.Context.Of(in)) })
		return err
	}
	modifyTIR := func(mask uint64, change func(c []byte)) error {
		_, err := p.command(prm.OpModifyTIR, 0x20+prm.TIRSize, nil, func(in []byte) {
			prm.ModifyContextIn.Number.Set(in, uint64(tir))
			prm.ModifyContextIn.Bitmask.Set(in, mask)
			change(prm.ModifyContextIn.Context.Of(in))
		})
		return err
	}
	rqt := func(max, n uint64, list ...uint32) error {
		var tail []byte
		for _, rqn := range list {
			tail = be.AppendUint32(tail, rqn)
		}
		return create(prm.OpCreateRQT, prm.TIRSize, tail, func(c []byte) { prm.RQTC.MaxSize.Set(c, max); prm.RQTC.ActualSize.Set(c, n) })
	}
	domain := func(c []byte) { prm.TIRC.TransportDomain.Set(c, uint64(p.domain)) }
	for what, tc := range map[string]struct {
		err  error
		want prm.Status
	}{
		"TIS of no domain":          {create(prm.OpCreateTIS, prm.TISSize, nil, func([]byte) {}), prm.StatusBadResource},
		"TIR of no domain":          {create(prm.OpCreateTIR, prm.TIRSize, nil, func(c []byte) { prm.TIRC.InlineRQ.Set(c, uint64(r.n)) }), prm.StatusBadResource},
		"TIR of no RQ":              {create(prm.OpCreateTIR, prm.TIRSize, nil, domain), prm.StatusBadResource},
		"TIR of no table":           {create(prm.OpCreateTIR, prm.TIRSize, nil, func(c []byte) { domain(c); prm.TIRC.DispatchType.Set(c, prm.TIRIndirect) }), prm.StatusBadResource},
		"TIR of a kind that is not": {create(prm.OpCreateTIR, prm.TIRSize, nil, func(c []byte) { domain(c); prm.TIRC.DispatchType.Set(c, 9) }), prm.StatusBadParam},
		"table of 3":                {rqt(4, 3, r.n, r.n, r.n), prm.StatusBadParam},
		"table greater than said":   {rqt(1, 2, r.n, r.n), prm.StatusBadParam},
		"table cut off":             {rqt(4, 4, r.n), prm.StatusBadInputLength},
		"table of no RQ":            {rqt(4, 1, r.n+99), prm.StatusBadResource},
		"another table":             {modifyTIR(1<<30, func([]byte) {}), prm.StatusBadParam},
		"hash that is not there":    {modifyTIR(modifyTIRHash, func(c []byte) { prm.TIRC.HashFunction.Set(c, 9) }), prm.StatusBadParam},
	} {
		if !errors.Is(tc.err, statusError(tc.want)) {
			t.Errorf("%s: %v, want %v", what, tc.err, tc.want)
		}
	}
	if err := modifyTIR(modifyTIRHash, func(c []byte) { prm.TIRC.HashFunction.Set(c, prm.HashToeplitz) }); err != nil {
		t.Errorf("modifyTIR: %v", err)
	}
	if f := prm.TIRC.HashFunction.Get(p.d.tirs.objects[tir].context[:]); f != prm.HashToeplitz {
		t.Errorf("hash function %d", f)
	}
}
