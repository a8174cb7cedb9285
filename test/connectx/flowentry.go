// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// setFlow creates or changes an entry.
func setFlow(d *Device, in, _ []byte) error {
	t, err := d.flowTableOf(in)
	if err != nil {
		return err
	}
	index, c := uint32(prm.FlowIn.Index.Get(in)), prm.FlowIn.Flow.Of(in)
	old := t.flows[index]
	switch mod := prm.FlowIn.OpMod.Get(in); {
	case mod > 1:
		return refuse(prm.StatusBadParam, "SET_FLOW_TABLE_ENTRY: no operation %d", mod)
	case mod == 1 && old == nil:
		return refuse(prm.StatusBadResource, "flow table %#x has no entry %d to change", t.n, index)
	case mod == 0 && old != nil:
		return refuse(prm.StatusBadResState, "flow table %#x has an entry %d", t.n, index)
	}
	n := uint32(prm.Flow.Group.Get(c))
	g, ok := t.groups[n]
	if !ok {
		return refuse(prm.StatusBadResource, "flow table %#x has no group %#x", t.n, n)
	}
	if index < g.start || index > g.end {
		return refuse(prm.StatusBadIndex, "entry %d is not of group %#x, which has %d to %d", index, n, g.start, g.end)
	}
	f := &flow{group: g, action: prm.Flow.Action.Get(c), value: [prm.MatchLen]byte(prm.Flow.Match.Of(c))}
	if bad := f.action &^ (prm.FlowAllow | prm.FlowDrop | prm.FlowForward); bad != 0 {
		return refuse(prm.StatusBadParam, "flow table entry: cannot do %#x", bad)
	}
	if old != nil && prm.FlowIn.ModifyMask.Get(in)&prm.ModifyFlowList == 0 {
		return refuse(prm.StatusBadParam, "flow table entry: cannot change %#x", prm.FlowIn.ModifyMask.Get(in))
	}
	if old == nil {
		if err := d.flows.room(1); err != nil {
			return err
		}
	}
	if f.to, err = d.readDestinations(c); err != nil {
		return err
	}
	f.hold(1)
	if old != nil {
		old.hold(-1)
	} else {
		d.flows.used++
	}
	t.flows[index] = f
	return nil
}

// readDestinations reads the list of destinations from an entry.
func (d *Device) readDestinations(c []byte) (to []destination, err error) {
	n, list := int(prm.Flow.Destinations.Get(c)), prm.Flow.List.Of(c)
	if n > 1<<logMaxDestination {
		return nil, refuse(prm.StatusBadParam, "flow table entry: %d destinations, of at most %d", n, 1<<logMaxDestination)
	}
	if len(list) < n*prm.DestinationSize {
		return nil, refuse(prm.StatusBadInputLength, "flow table entry: %d destinations in %d bytes", n, len(list))
	}
	for ; n > 0; n-- {
		var o destination
		number := uint32(prm.Destination.Number.Get(list))
		switch kind := prm.Destination.Type.Get(list); kind {
		case prm.DestinationTable:
			o.table, err = d.flowTables.find(number)
		case prm.DestinationTIR:
			o.tir, err = d.tirs.find(number)
		default:
			err = refuse(prm.StatusBadParam, "flow table entry: no destination of type %d", kind)
		}
		if err != nil {
			return nil, err
		}
		to, list = append(to, o), list[prm.DestinationSize:]
	}
	return to, nil
}

func deleteFlow(d *Device, in, _ []byte) error {
	t, err := d.flowTableOf(in)
	if err != nil {
		return err
	}
	index := uint32(prm.FlowIn.Index.Get(in))
	f := t.flows[index]
	if f == nil {
		return refuse(prm.StatusBadResource, "flow table %#x has no entry %d", t.n, index)
	}
	f.hold(-1)
	delete(t.flows, index)
	d.flows.used--
	return nil
}

// hold adds by to the use counts of the objects that the entry refers to.
func (f *flow) hold(by users) {
	f.group.users += by
	for _, o := range f.to {
		if o.table != nil {
			o.table.users += by
		} else {
			o.tir.users += by
		}
	}
}
