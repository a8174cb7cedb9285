// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"encoding/binary"

	"purerdma/test/connectx/prm"
)

// vport is the port of the function. It has a context and lists of the accepted destination
// addresses of frames.
type vport struct {
	context [256]byte
	lists   [3][]byte // lists by kind, in the format of commands
}

// Maximum lengths of the lists.
const (
	logMaxUCList   = 7
	logMaxMCList   = 11
	logMaxVLANList = 12
)

// vportLists contains the entry size and the maximum length of each kind of list.
var vportLists = [3]struct{ entry, max int }{
	prm.ListUnicast:   {prm.MACSize, 1 << logMaxUCList},
	prm.ListMulticast: {prm.MACSize, 1 << logMaxMCList},
	prm.ListVLAN:      {prm.VLANSize, 1 << logMaxVLANList},
}

var vportCommands = map[uint16]command{
	prm.OpQueryVportState:       {"QUERY_VPORT_STATE", 16, 16, queryVportState},
	prm.OpModifyVportState:      {"MODIFY_VPORT_STATE", 16, 16, modifyVportState},
	prm.OpQueryNICVportContext:  {"QUERY_NIC_VPORT_CONTEXT", 16, 0x110, queryNICVport},
	prm.OpModifyNICVportContext: {"MODIFY_NIC_VPORT_CONTEXT", 0x200, 16, modifyNICVport},
	prm.OpQueryHCAVportPKey:     {"QUERY_HCA_VPORT_PKEY", 16, 16, queryPKey},
	prm.OpQueryVportCounter:     {"QUERY_VPORT_COUNTER", 0x20, 0x210, queryVportCounter},
}

// newVport returns the vport of a port with an address.
func newVport(mac [6]byte) (v vport) {
	c := v.context[:]
	guid := uint64(binary.BigEndian.Uint16(mac[:]))<<48 | uint64(mac[2])<<40 | 0xfffe<<24 | uint64(mac[3])<<16 | uint64(mac[4])<<8 | uint64(mac[5])
	prm.NICVport.MTU.Set(c, 1500)
	prm.NICVport.NodeGUID.Set(c, guid)
	prm.NICVport.PortGUID.Set(c, guid)
	prm.NICVport.SystemImageGUID.Set(c, guid)
	copy(prm.MACAddress.MAC.Of(prm.NICVport.Permanent.Of(c)), mac[:])
	return v
}

// ownVport rejects a command for another vport.
func ownVport(name string, in []byte) error {
	if prm.VportIn.Other.Is(in) || prm.VportIn.Vport.Is(in) {
		return refuse(prm.StatusBadParam, "%s: there is no vport %d", name, prm.VportIn.Vport.Get(in))
	}
	return nil
}

func queryVportState(d *Device, in, out []byte) error {
	if err := ownVport("QUERY_VPORT_STATE", in); err != nil {
		return err
	}
	prm.VportState.Admin.Set(out, prm.VportUp)
	if d.portUp() {
		prm.VportState.State.Set(out, prm.VportUp)
	}
	return nil
}

func modifyVportState(d *Device, in, _ []byte) error {
	if err := ownVport("MODIFY_VPORT_STATE", in); err != nil {
		return err
	}
	if s := prm.VportIn.AdminState.Get(in); s > prm.VportFollow {
		return refuse(prm.StatusBadParam, "MODIFY_VPORT_STATE: there is no state %d", s)
	}
	return nil
}

func queryNICVport(d *Device, in, out []byte) error {
	if err := ownVport("QUERY_NIC_VPORT_CONTEXT", in); err != nil {
		return err
	}
	kind := prm.VportIn.ListType.Get(in)
	if kind >= uint64(len(vportLists)) {
		return refuse(prm.StatusBadParam, "QUERY_NIC_VPORT_CONTEXT: there is no list %d", kind)
	}
	list, c := d.fw.vport.lists[kind], prm.QueryNICVportOut.Context.Of(out)
	copy(c, d.fw.vport.context[:])
	prm.NICVport.ListType.Set(c, kind)
	prm.NICVport.ListSize.Set(c, uint64(len(list)/vportLists[kind].entry))
	copy(prm.QueryNICVportOut.List.Of(out), list)
	return nil
}

// vportFields lists the fields of the context that MODIFY_NIC_VPORT_CONTEXT changes, by the bit
// that selects them.
var vportFields = []struct {
	selector prm.Field
	fields   []prm.Field
}{
	{prm.ModifyNICVportIn.DisableUCLocalLB, []prm.Field{prm.NICVport.DisableUCLocalLB}},
	{prm.ModifyNICVportIn.DisableMCLocalLB, []prm.Field{prm.NICVport.DisableMCLocalLB}},
	{prm.ModifyNICVportIn.NodeGUID, []prm.Field{prm.NICVport.NodeGUID}},
	{prm.ModifyNICVportIn.PortGUID, []prm.Field{prm.NICVport.PortGUID}},
	{prm.ModifyNICVportIn.MTU, []prm.Field{prm.NICVport.MTU}},
	{prm.ModifyNICVportIn.ChangeEvent, []prm.Field{prm.NICVport.ArmChangeEvent, prm.NICVport.Events}},
	{prm.ModifyNICVportIn.Promisc, []prm.Field{prm.NICVport.PromiscUC, prm.NICVport.PromiscMC, prm.NICVport.PromiscAll}},
	{prm.ModifyNICVportIn.RoCEEn, []prm.Field{prm.NICVport.RoCEEn}},
}

func modifyNICVport(d *Device, in, _ []byte) error {
	const name = "MODIFY_NIC_VPORT_CONTEXT"
	if err := ownVport(name, in); err != nil {
		return err
	}
	c, v := prm.ModifyNICVportIn.Context.Of(in), &d.fw.vport
	if prm.ModifyNICVportIn.MinInline.Is(in) && prm.NICVport.MinWQEInline.Is(c) {
		return refuse(prm.StatusBadParam, "%s: the device needs no headers inline", name)
	}
	if prm.ModifyNICVportIn.List.Is(in) {
		kind, n := prm.NICVport.ListType.Get(c), int(prm.NICVport.ListSize.Get(c))
		if kind >= uint64(len(vportLists)) || n > vportLists[kind].max {
			return refuse(prm.StatusBadParam, "%s: list %d of %d addresses", name, kind, n)
		}
		list := prm.ModifyNICVportIn.Addresses.Of(in)
		if n *= vportLists[kind].entry; len(list) < n {
			return refuse(prm.StatusBadInputLength, "%s: a list of %d bytes, not %d", name, len(list), n)
		}
		v.lists[kind] = bytes.Clone(list[:n])
	}
	for _, f := range vportFields {
		if f.selector.Is(in) {
			for _, field := range f.fields {
				field.Set(v.context[:], field.Get(c))
			}
		}
	}
	if prm.ModifyNICVportIn.Permanent.Is(in) {
		copy(prm.NICVport.Permanent.Of(v.context[:]), prm.NICVport.Permanent.Of(c))
	}
	return nil
}

// accepts reports whether frames to an address are accepted.
func (v *vport) accepts(mac []byte) bool {
	c := v.context[:]
	multicast := mac[0]&1 != 0
	kind, promiscuous := prm.ListUnicast, prm.NICVport.PromiscUC
	if multicast {
		kind, promiscuous = prm.ListMulticast, prm.NICVport.PromiscMC
	}
	switch {
	case prm.NICVport.PromiscAll.Is(c) || promiscuous.Is(c):
		return true
	case bytes.Equal(mac, broadcast[:]) || bytes.Equal(mac, prm.MACAddress.MAC.Of(prm.NICVport.Permanent.Of(c))):
		return true
	}
	for e := v.lists[kind]; len(e) >= prm.MACSize; e = e[prm.MACSize:] {
		if bytes.Equal(mac, prm.MACAddress.MAC.Of(e)) {
			return true
		}
	}
	return false
}

var broadcast = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// queryPKey returns the only partition key of RoCE.
func queryPKey(d *Device, in, out []byte) error {
	i := prm.PKeyIn.Index.Get(in)
	if i != 0 && i != allPKeys {
		return refuse(prm.StatusBadIndex, "QUERY_HCA_VPORT_PKEY: there is no P_Key %d", i)
	}
	if len(out) >= 20 {
		prm.PKeyOut.PKey.Set(out, 0xffff)
	}
	return nil
}

// allPKeys is the index that selects the whole table.
const allPKeys = 0xffff
