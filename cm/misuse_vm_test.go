// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestCallsInWrongStates makes every call in every state that an ID can reach. If the call is
// impossible in the state, the error names the state and the possible ones, and the ID's state
// stays unchanged.
func TestCallsInWrongStates(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	var r *rig // a new one for each call
	local := func() cm.Addr { return cm.AddrFrom(netip.AddrPortFrom(r.hosts[1].IPv4, 0)) }
	reach := map[cm.State]func() *cm.ID{
		cm.StateIdle:          func() *cm.ID { return r.newID(r.client) },
		cm.StateBound:         func() *cm.ID { id := r.newID(r.client); r.ok(id.Bind(local())); return id },
		cm.StateAddrResolved:  func() *cm.ID { return r.addrResolved() },
		cm.StateRouteResolved: func() *cm.ID { return r.resolved() },
		cm.StateListening:     func() *cm.ID { id := r.newID(r.client); r.ok(id.Bind(local())); r.ok(id.Listen(0)); return id },
		cm.StateConnecting: func() *cm.ID {
			id := r.resolved()
			r.requested(id, &cm.ConnParam{QPNum: 1})
			return id
		},
		cm.StateRequested: func() *cm.ID { return r.requested(r.resolved(), &cm.ConnParam{QPNum: 1}) },
		cm.StateAccepting: func() *cm.ID {
			client := r.resolved()
			server := r.requested(client, &cm.ConnParam{QPNum: 2})
			r.ok(server.Accept(&cm.ConnParam{QPNum: 3}))
			r.want(r.client, client, cm.EventConnectResponse, 0)
			return server
		},
		cm.StateResponded: func() *cm.ID {
			client := r.resolved()
			r.ok(r.requested(client, &cm.ConnParam{QPNum: 4}).Accept(&cm.ConnParam{QPNum: 5}))
			r.want(r.client, client, cm.EventConnectResponse, 0)
			return client
		},
		cm.StateEstablished: func() *cm.ID { server, _ := r.connected(); return server },
		cm.StateDisconnected: func() *cm.ID {
			server, client := r.connected()
			r.ok(client.Disconnect())
			r.want(r.server, server, cm.EventDisconnected, 0)
			return server
		},
		cm.StateFailed: func() *cm.ID {
			client := r.resolved()
			r.ok(r.requested(client, &cm.ConnParam{QPNum: 8}).Reject(nil))
			r.want(r.client, client, cm.EventRejected, cm.RejectConsumer)
			return client
		},
	}
	calls := []struct {
		name string
		call func(*cm.ID) error
		fits []cm.State
	}{
		{"Bind", func(id *cm.ID) error { return id.Bind(local()) }, []cm.State{cm.StateIdle}},
		{"ResolveAddr", func(id *cm.ID) error { return id.ResolveAddr(cm.Addr{}, r.listener.LocalAddr(), time.Second) },
			[]cm.State{cm.StateIdle, cm.StateBound}},
		{"ResolveRoute", func(id *cm.ID) error { return id.ResolveRoute(time.Second) }, []cm.State{cm.StateAddrResolved}},
		{"Listen", func(id *cm.ID) error { return id.Listen(0) }, []cm.State{cm.StateIdle, cm.StateBound}},
		{"Connect", func(id *cm.ID) error { return id.Connect(&cm.ConnParam{QPNum: 6}) }, []cm.State{cm.StateRouteResolved}},
		{"Accept", func(id *cm.ID) error { return id.Accept(&cm.ConnParam{QPNum: 7}) }, []cm.State{cm.StateRequested}},
		{"Establish", func(id *cm.ID) error { return id.Establish() }, []cm.State{cm.StateResponded}},
		{"Reject", func(id *cm.ID) error { return id.Reject(nil) }, []cm.State{cm.StateRequested, cm.StateResponded}},
		{"Disconnect", func(id *cm.ID) error { return id.Disconnect() },
			[]cm.State{cm.StateResponded, cm.StateAccepting, cm.StateEstablished, cm.StateDisconnected}},
		{"SetReuseAddr", func(id *cm.ID) error { return id.SetReuseAddr(true) }, []cm.State{cm.StateIdle, cm.StateBound}},
		{"SetReuseAddr off", func(id *cm.ID) error { return id.SetReuseAddr(false) }, []cm.State{cm.StateIdle}},
		{"SetAFOnly", func(id *cm.ID) error { return id.SetAFOnly(true) }, []cm.State{cm.StateIdle, cm.StateBound}},
		{"InitQPAttr", func(id *cm.ID) error { _, _, err := id.InitQPAttr(verbs.QPRTR); return err },
			[]cm.State{cm.StateRequested, cm.StateResponded, cm.StateAccepting, cm.StateEstablished}},
	}
	// takes lists calls that the kernel accepts without an effect. These are the rejection of
	// the ID's own request, the disconnect before a connection has begun, and the sharing of a
	// port after the ID has its own port. Before there is a connection, the kernel returns the
	// attributes of INIT for all states. The IDs that have been connected have a QP, which
	// Establish refuses in any state.
	takes := map[string][]cm.State{
		"Establish":  {cm.StateEstablished, cm.StateDisconnected},
		"Reject":     {cm.StateConnecting, cm.StateAccepting, cm.StateEstablished, cm.StateDisconnected, cm.StateFailed},
		"Disconnect": {cm.StateListening, cm.StateConnecting, cm.StateRequested, cm.StateFailed},
		"SetReuseAddr": {cm.StateAddrResolved, cm.StateRouteResolved, cm.StateConnecting, cm.StateResponded, cm.StateRequested, cm.StateAccepting,
			cm.StateEstablished, cm.StateDisconnected, cm.StateFailed},
		"InitQPAttr": {cm.StateBound, cm.StateAddrResolved, cm.StateRouteResolved},
	}
	for state, make := range reach {
		for _, c := range calls {
			if slices.Contains(c.fits, state) || slices.Contains(takes[c.name], state) {
				continue
			}
			r = rigOn(t, hosts[0], hosts[1], cm.IDConfig{})
			id := make()
			if id.State() != state {
				t.Fatalf("State() = %v, want %v", id.State(), state)
			}
			err := c.call(id)
			var se *cm.StateError
			switch {
			case err == nil:
				t.Errorf("%s in %v = nil, want an error", c.name, state)
			case !errors.As(err, &se) || se.State != state || !errors.Is(err, syscall.EINVAL):
				t.Errorf("%s in %v = %v, want a StateError with EINVAL", c.name, state, err)
			}
			if id.State() != state {
				t.Errorf("state after %s in %v = %v, want no change", c.name, state, id.State())
			}
			r.close()
		}
	}
}

// addrResolved returns an ID whose address is resolved.
func (r *rig) addrResolved() *cm.ID {
	r.t.Helper()
	id := r.newID(r.client)
	r.ok(id.ResolveAddr(cm.AddrFrom(netip.AddrPortFrom(r.hosts[1].IPv4, 0)), r.listener.LocalAddr(), time.Second))
	r.want(r.client, id, cm.EventAddrResolved, 0)
	return id
}
