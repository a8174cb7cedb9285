// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestDatagramEvents checks the contents of a look-up's events. Only the private
// data of the parameters has an effect, and the QP number if the ID has no QP.
func TestDatagramEvents(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	p := &rcPair{rig: &rig{t: t, hosts: hosts, server: channel(t), client: channel(t)}}
	newID := func(ch *cm.EventChannel) *cm.ID {
		id, err := ch.NewID(cm.IDConfig{PortSpace: cm.PortSpaceUDP})
		p.ok(err)
		return id
	}
	p.listener = newID(p.server)
	p.ok(p.listener.Bind(rcAddr(hosts[0].IPv4, 0)))
	p.ok(p.listener.Listen(0))
	everything := func(private string) *cm.ConnParam {
		return &cm.ConnParam{PrivateData: []byte(private), ResponderResources: 250, InitiatorDepth: 250, FlowControl: true,
			RetryCount: 9, RNRRetryCount: 9, SRQ: true, QPNum: 0x4711}
	}
	for _, withQP := range []bool{false, true} {
		id := newID(p.client)
		p.route(id, rcAddr(hosts[1].IPv4, 0), p.listener.LocalAddr())
		p.ok(id.Connect(everything("who")))
		ev := p.next(p.server, nil, cm.EventConnectRequest)
		if ev.Listener != p.listener || ev.ID == p.listener || ev.ID.Device() == nil || ev.ID.Device().Name() != hosts[0].Device {
			t.Errorf("CONNECT_REQUEST of %v: ID %v on %v, want a new ID of %v on %s", ev.Listener, ev.ID, ev.ID.Device(), p.listener, hosts[0].Device)
		}
		if want := append([]byte("who"), make([]byte, 177)...); !bytes.Equal(ev.UD.PrivateData, want) {
			t.Errorf("private data of the request = %d bytes %q, want 180 bytes", len(ev.UD.PrivateData), ev.UD.PrivateData)
		}
		if ev.UD.QPN != 0 || ev.Conn.QPNum != 0 || ev.Conn.RetryCount != 0 || ev.Conn.PrivateData != nil {
			t.Errorf("CONNECT_REQUEST has %+v and %+v, want no parameters of the connecting side", ev.UD, ev.Conn)
		}
		want := uint32(0x4711)
		if withQP {
			p.ok(ev.ID.CreateQP(nil, verbs.QPConfig{}))
			want = ev.ID.QP().Num()
		}
		p.ok(ev.ID.Accept(everything("")))
		p.quiet(p.server, 50*time.Millisecond)
		ev = p.next(p.client, id, cm.EventEstablished)
		if ev.Status != 0 || ev.UD.QPN != want || ev.UD.QKey != 0x01234567 || !ev.UD.AHAttr.Global {
			t.Errorf("ESTABLISHED has %+v, want QP %d and a global route", ev.UD, want)
		}
		if !bytes.Equal(ev.UD.PrivateData, make([]byte, 136)) {
			t.Errorf("private data of the answer = %d bytes %q, want 136 zeros", len(ev.UD.PrivateData), ev.UD.PrivateData)
		}
	}
	// An event without private data.
	id := newID(p.client)
	p.ok(id.Bind(rcAddr(hosts[1].IPv4, 0)))
	m, err := id.JoinMulticast(group, cm.FullMember)
	p.ok(err)
	if ev := p.next(p.client, nil, cm.EventMulticastJoin); ev.Multicast != m || ev.UD.PrivateData != nil {
		t.Errorf("PrivateData of MULTICAST_JOIN = %q, want none", ev.UD.PrivateData)
	}
}
