// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// TestReuseAddr checks that a port can be bound twice only if both IDs have set the option.
func TestReuseAddr(t *testing.T) {
	p := newRCPair(t)
	bind := func(addr cm.Addr, reuse bool) (*cm.ID, error) {
		id := p.newID(p.server)
		if reuse {
			p.ok(id.SetReuseAddr(true))
		}
		return id, id.Bind(addr)
	}
	first, err := bind(rcAddr(p.hosts[0].IPv4, 0), false)
	p.ok(err)
	_, err = bind(first.LocalAddr(), true)
	wantError(t, err, "bind", syscall.EADDRINUSE, first.LocalAddr().String())
	first, err = bind(rcAddr(p.hosts[0].IPv4, 0), true)
	p.ok(err)
	_, err = bind(first.LocalAddr(), false)
	wantError(t, err, "bind", syscall.EADDRINUSE)
	second, err := bind(first.LocalAddr(), true)
	p.ok(err)
	if second.LocalAddr() != first.LocalAddr() {
		t.Errorf("LocalAddr() = %v, want %v", second.LocalAddr(), first.LocalAddr())
	}
}

// TestAFOnly checks that the IPv6 wildcard also accepts IPv4 requests without the option, and
// not with it.
func TestAFOnly(t *testing.T) {
	p := newRCPair(t)
	for _, only := range []bool{false, true} {
		p.listener = p.newID(p.server)
		p.ok(p.listener.SetAFOnly(only))
		p.ok(p.listener.Bind(rcAddr(netip.IPv6Unspecified(), 0)))
		p.ok(p.listener.Listen(0))
		port := p.listener.LocalAddr().Port()
		for _, tc := range []struct {
			from, to netip.Addr
			served   bool
		}{
			{p.hosts[1].IPv6, p.hosts[0].IPv6, true},
			{p.hosts[1].IPv4, p.hosts[0].IPv4, !only},
		} {
			id := p.newID(p.client)
			p.route(id, rcAddr(tc.from, 0), rcAddr(tc.to, port))
			p.ok(id.Connect(&cm.ConnParam{QPNum: uint32(port)}))
			if tc.served {
				p.next(p.server, nil, cm.EventConnectRequest).ID.Close()
			}
			p.next(p.client, id, cm.EventRejected)
			if !tc.served {
				p.quiet(p.server, 50*time.Millisecond)
			}
		}
	}
}

// TestTypeOfServiceAndAckTimeout checks that both options determine the path and the QP.
func TestTypeOfServiceAndAckTimeout(t *testing.T) {
	const tos, timeout = 0x68, 15
	p := newRCPair(t)
	id := p.newID(p.client)
	for _, d := range []time.Duration{0, verbs.DecodeAckTimeout(32)} {
		if err := id.SetAckTimeout(d); !errors.Is(err, verbs.ErrTimeoutRange) {
			t.Errorf("SetAckTimeout(%v) = %v, want %v", d, err, verbs.ErrTimeoutRange)
		}
	}
	p.ok(id.SetTOS(tos))
	p.ok(id.SetAckTimeout(verbs.DecodeAckTimeout(timeout)))
	p.route(id, rcAddr(p.hosts[1].IPv4, 0), p.listener.LocalAddr())
	paths, err := id.QueryPath()
	p.ok(err)
	if len(paths) != 1 || paths[0].TrafficClass != tos || paths[0].LifeTime != timeout-1 {
		t.Errorf("QueryPath() = %+v, want one path with traffic class %#x and life time %d", paths, tos, timeout-1)
	}
	p.active = id
	qp := p.qpOf(id)
	p.request(nil)
	p.qpOf(p.passive)
	p.accepted(nil)
	if a := p.query(qp); a.Timeout != timeout || a.AH.GRH.TrafficClass != tos {
		t.Errorf("QP: timeout %d, traffic class %#x, want %d, %#x", a.Timeout, a.AH.GRH.TrafficClass, timeout, tos)
	}
}

// TestTheIDsSRQ checks that the QP takes its receives from the ID's SRQ, and that the peer's
// event names an SRQ for any parameters.
func TestTheIDsSRQ(t *testing.T) {
	p := newRCPair(t)
	p.ok(p.active.CreateSRQ(nil, verbs.SRQConfig{MaxWR: 8, MaxSGE: 1}))
	active := p.qpOf(p.active)
	srq := p.active.SRQ()
	if srq == nil || active.SRQ() != srq {
		t.Fatalf("SRQ of the QP = %v, of the ID = %v, want the same SRQ", active.SRQ(), srq)
	}
	if err := p.active.CreateSRQ(nil, verbs.SRQConfig{MaxWR: 8, MaxSGE: 1}); err == nil {
		t.Error("second CreateSRQ = nil, want an error")
	}
	if ev := p.request(&cm.ConnParam{SRQ: false}); !ev.Conn.SRQ {
		t.Errorf("CONNECT_REQUEST has %+v, want an SRQ", ev.Conn)
	}
	passive := p.qpOf(p.passive)
	if ev := p.accepted(nil); ev.Conn.SRQ {
		t.Errorf("CONNECT_RESPONSE has %+v, want no SRQ", ev.Conn)
	}
	in, out := alloc(t, active.PD(), 4096), alloc(t, passive.PD(), 4096)
	if _, err := srq.PostRecv([]verbs.RecvWR{{ID: 77, SGList: []verbs.SGE{in.SGE()}}}); err != nil {
		t.Fatalf("PostRecv: %v", err)
	}
	copy(out.Bytes(), "shared")
	if _, err := passive.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{out.Slice(0, 6)}}}); err != nil {
		t.Fatalf("passive.PostSend: %v", err)
	}
	completion(t, passive.SendCQ())
	if wc := completion(t, active.RecvCQ()); wc.ID != 77 || string(in.Bytes()[:wc.ByteLen]) != "shared" {
		t.Errorf("completion = %+v, data %q, want receive 77 with \"shared\"", wc, in.Bytes()[:wc.ByteLen])
	}
}
