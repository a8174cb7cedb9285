// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"purerdma/test/connectx/prm"
)

// flowTable is a table of entries, in groups that match equal fields. The first entry that
// matches a frame applies.
type flowTable struct {
	n       uint32
	context [40]byte
	groups  map[uint32]*flowGroup
	flows   map[uint32]*flow // by index
	last    uint32           // last created group
	users                    // entries and tables that forward to it, and its use as root
}

// flowGroup is a range of a table.
type flowGroup struct {
	n          uint32
	start, end uint32
	mask       [prm.MatchLen]byte
	users
}

// flow is an entry.
type flow struct {
	group  *flowGroup
	action uint64
	value  [prm.MatchLen]byte
	to     []destination
}

// destination is the target of a frame, a table or a TIR.
type destination struct {
	table *flowTable
	tir   *tir
}

// Limits of flow tables.
const (
	logMaxTableSize = 20
	maxTableLevel   = 127
)

var flowCommands = map[uint16]command{
	prm.OpCreateFlowTable:      {"CREATE_FLOW_TABLE", 0x40, 16, createFlowTable},
	prm.OpModifyFlowTable:      {"MODIFY_FLOW_TABLE", 0x40, 16, modifyFlowTable},
	prm.OpDestroyFlowTable:     {"DESTROY_FLOW_TABLE", 0x40, 16, destroyFlowTable},
	prm.OpSetFlowTableRoot:     {"SET_FLOW_TABLE_ROOT", 0x40, 16, setFlowTableRoot},
	prm.OpCreateFlowGroup:      {"CREATE_FLOW_GROUP", 0x400, 16, createFlowGroup},
	prm.OpDestroyFlowGroup:     {"DESTROY_FLOW_GROUP", 0x40, 16, destroyFlowGroup},
	prm.OpSetFlowTableEntry:    {"SET_FLOW_TABLE_ENTRY", 0x40 + prm.FlowSize, 16, setFlow},
	prm.OpDeleteFlowTableEntry: {"DELETE_FLOW_TABLE_ENTRY", 0x40, 16, deleteFlow},
}

// flowTableOf returns the table of a command.
func (d *Device) flowTableOf(in []byte) (*flowTable, error) {
	if err := receiveTable(in); err != nil {
		return nil, err
	}
	return d.flowTables.find(uint32(prm.FlowIn.Table.Get(in)))
}

// receiveTable rejects tables that are not for received frames.
func receiveTable(in []byte) error {
	if t := prm.FlowIn.TableType.Get(in); t != prm.FlowTableReceive {
		return refuse(prm.StatusBadParam, "there are no flow tables of type %d", t)
	}
	return ownVport("flow table", in)
}

// missTable returns the table for frames without a matching entry, or nil.
func (d *Device) missTable(context []byte) (*flowTable, error) {
	switch a := prm.FlowTable.MissAction.Get(context); a {
	case prm.MissDefault:
		return nil, nil
	case prm.MissTable:
		return d.flowTables.find(uint32(prm.FlowTable.MissTable.Get(context)))
	default:
		return nil, refuse(prm.StatusBadParam, "flow table: there is no action %d for what no entry takes", a)
	}
}

func createFlowTable(d *Device, in, out []byte) error {
	if err := receiveTable(in); err != nil {
		return err
	}
	t := &flowTable{groups: make(map[uint32]*flowGroup), flows: make(map[uint32]*flow)}
	copy(t.context[:], prm.FlowIn.TableContext.Of(in))
	d.checkReserved("CREATE_FLOW_TABLE", &prm.FlowTable, t.context[:])
	if n := prm.FlowTable.LogSize.Get(t.context[:]); n > logMaxTableSize {
		return refuse(prm.StatusBadParam, "a flow table has at most 2^%d entries, not 2^%d", logMaxTableSize, n)
	}
	if n := prm.FlowTable.Level.Get(t.context[:]); n > maxTableLevel {
		return refuse(prm.StatusBadParam, "there is no level %d of flow tables", n)
	}
	miss, err := d.missTable(t.context[:])
	if err != nil {
		return err
	}
	if t.n, err = d.flowTables.add(t); err != nil {
		return err
	}
	if miss != nil {
		miss.users++
	}
	prm.ObjectOut.Number.Set(out, uint64(t.n))
	return nil
}

// modifyFlowTable changes the target of frames without a matching entry.
func modifyFlowTable(d *Device, in, _ []byte) error {
	t, err := d.flowTableOf(in)
	if err != nil {
		return err
	}
	if sel := prm.FlowIn.ModifySelect.Get(in); sel != prm.ModifyMissTable {
		return refuse(prm.StatusBadParam, "MODIFY_FLOW_TABLE: cannot change %#x", sel)
	}
	c := prm.FlowIn.TableContext.Of(in)
	miss, err := d.missTable(c)
	if err != nil {
		return err
	}
	if old, _ := d.missTable(t.context[:]); old != nil {
		old.users--
	}
	if miss != nil {
		miss.users++
	}
	prm.FlowTable.MissAction.Set(t.context[:], prm.FlowTable.MissAction.Get(c))
	prm.FlowTable.MissTable.Set(t.context[:], prm.FlowTable.MissTable.Get(c))
	return nil
}

func destroyFlowTable(d *Device, in, _ []byte) error {
	t, err := d.flowTableOf(in)
	if err != nil {
		return err
	}
	if len(t.groups) > 0 {
		return refuse(prm.StatusResourceBusy, "flow table %#x has %d groups", t.n, len(t.groups))
	}
	users := t.users
	if d.root == t {
		users--
	}
	if err := users.busy(d.flowTables.kind, t.n); err != nil {
		return err
	}
	if d.root == t {
		d.root = nil
	}
	if miss, _ := d.missTable(t.context[:]); miss != nil {
		miss.users--
	}
	delete(d.flowTables.objects, t.n)
	return nil
}

// setFlowTableRoot selects the table for received frames.
func setFlowTableRoot(d *Device, in, _ []byte) error {
	if prm.FlowIn.OpMod.Get(in) == prm.RootDisconnect {
		if d.root != nil {
			d.root.users--
		}
		d.root = nil
		return nil
	}
	t, err := d.flowTableOf(in)
	if err != nil {
		return err
	}
	if d.root != nil {
		d.root.users--
	}
	t.users++
	d.root = t
	return nil
}

func createFlowGroup(d *Device, in, out []byte) error {
	t, err := d.flowTableOf(in)
	if err != nil {
		return err
	}
	g := &flowGroup{start: uint32(prm.FlowIn.StartIndex.Get(in)), end: uint32(prm.FlowIn.EndIndex.Get(in))}
	if g.start > g.end || g.end>>prm.FlowTable.LogSize.Get(t.context[:]) != 0 {
		return refuse(prm.StatusBadParam, "a group of entries %d to %d in a flow table of 2^%d", g.start, g.end, prm.FlowTable.LogSize.Get(t.context[:]))
	}
	for _, o := range t.groups {
		if g.start <= o.end && o.start <= g.end {
			return refuse(prm.StatusBadParam, "a group of entries %d to %d, but group %d has %d to %d", g.start, g.end, o.n, o.start, o.end)
		}
	}
	switch enable := prm.FlowIn.MatchEnable.Get(in); enable {
	case 0:
	case prm.MatchOuter:
		copy(g.mask[:], prm.FlowIn.MatchMask.Of(in))
		if bad := prm.Reserved(&prm.Match, g.mask[:]); bad != "" {
			return refuse(prm.StatusBadParam, "flow group: cannot match %s", bad)
		}
	default:
		return refuse(prm.StatusBadParam, "flow group: cannot match headers %#x", enable)
	}
	if err := d.flowGroups.room(1); err != nil {
		return err
	}
	d.flowGroups.used++
	t.last++
	g.n = t.last
	t.groups[g.n] = g
	prm.ObjectOut.Number.Set(out, uint64(g.n))
	return nil
}

func destroyFlowGroup(d *Device, in, _ []byte) error {
	t, err := d.flowTableOf(in)
	if err != nil {
		return err
	}
	n := uint32(prm.FlowIn.Group.Get(in))
	g, ok := t.groups[n]
	if !ok {
		return refuse(prm.StatusBadResource, "flow table %#x has no group %#x", t.n, n)
	}
	if err := g.busy("flow group", n); err != nil {
		return err
	}
	delete(t.groups, n)
	d.flowGroups.used--
	return nil
}
