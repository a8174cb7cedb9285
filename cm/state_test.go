// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"slices"
	"strings"
	"testing"
)

// every calls fn with each combination that the table can be asked for, unknown
// events included.
func every(fn func(s State, e EventType, k kind)) {
	for s := range State(numStates) {
		for e := range EventType(numEvents + 5) {
			for k := range kind(numKinds) {
				fn(s, e, k)
			}
		}
	}
}

func TestEveryEventInEveryState(t *testing.T) {
	connecting := []State{StateConnecting, StateResponded, StateAccepting}
	every(func(s State, e EventType, k kind) {
		st := transition(s, e, k)
		if int(st.next) >= numStates {
			t.Fatalf("%v in %v leads to state %d", e, s, st.next)
		}
		bad := func(what string) { t.Errorf("%v in %q: %s", e, s, what) }
		if (st.next == StateRemoved) != (e == EventDeviceRemoval || s == StateRemoved) {
			bad("the removed state is for removed devices")
		}
		if (st.do == actRemove) != (e == EventDeviceRemoval) {
			bad("a removal must be acted on, and nothing else as one")
		}
		if st.next == StateEstablished && s != StateEstablished && !slices.Contains(connecting, s) {
			bad("established out of nothing")
		}
		if s == StateEstablished && st.next != StateEstablished && e != EventDisconnected && e != EventRejected && e != EventDeviceRemoval {
			bad("an established connection ends by DISCONNECTED, REJECTED and DEVICE_REMOVAL alone")
		}
		if (st.do == actEstablish) != (e == EventConnectResponse && s == StateConnecting && k == kindQP) {
			bad("a response is answered once, and only for a QP")
		}
		if st.do == actFlush && k == kindDatagram {
			bad("a QP of datagrams serves other peers, too")
		}
		if st.do == actFlush && st.next != StateFailed && st.next != StateDisconnected {
			bad("a QP is flushed when its connection is over")
		}
		if over := s == StateFailed || s == StateDisconnected; over && st.next != s && e != EventDeviceRemoval {
			bad("what is over stays over")
		}
		if int(e) >= numEvents && (st != step{s, actNone}) {
			bad("an unknown event must change nothing")
		}
	})
}

// TestNoSequenceEstablishesTwice feeds every sequence of four events to every state:
// no history leads to a QP being moved twice.
func TestNoSequenceEstablishesTwice(t *testing.T) {
	var walk func(s State, k kind, established, depth int)
	walk = func(s State, k kind, established, depth int) {
		if established > 1 {
			t.Fatal("a sequence of events establishes twice")
		}
		if depth == 0 {
			return
		}
		for e := range EventType(numEvents) {
			st := transition(s, e, k)
			n := established
			if st.do == actEstablish {
				n++
			}
			walk(st.next, k, n, depth-1)
		}
	}
	for s := range State(numStates) {
		for k := range kind(numKinds) {
			walk(s, k, 0, 4)
		}
	}
}

func TestLifeOfAConnection(t *testing.T) {
	for _, tc := range []struct {
		name   string
		start  State
		k      kind
		events []EventType
		states []State
	}{
		{"resolving", StateAddrQuery, kindPlain, []EventType{EventAddrResolved}, []State{StateAddrResolved}},
		{"an address that fails may be tried again", StateAddrQuery, kindPlain, []EventType{EventAddrError}, []State{StateBound}},
		{"the address is asked for again before the error is known", StateAddrQuery, kindPlain,
			[]EventType{EventAddrError, EventAddrResolved}, []State{StateBound, StateAddrResolved}},
		{"the route is asked for again before the error is known", StateRouteQuery, kindPlain,
			[]EventType{EventRouteError, EventRouteResolved}, []State{StateAddrResolved, StateRouteResolved}},
		{"active with a QP", StateConnecting, kindQP,
			[]EventType{EventConnectResponse, EventUnreachable, EventDisconnected, EventTimewaitExit},
			[]State{StateEstablished, StateEstablished, StateDisconnected, StateDisconnected}},
		{"active without a QP", StateConnecting, kindPlain,
			[]EventType{EventConnectResponse, EventRejected}, []State{StateResponded, StateFailed}},
		{"active, of a peer that dies before it knows", StateConnecting, kindQP,
			[]EventType{EventConnectResponse, EventRejected, EventDisconnected}, []State{StateEstablished, StateDisconnected, StateDisconnected}},
		{"active on iWARP", StateConnecting, kindQP, []EventType{EventEstablished}, []State{StateEstablished}},
		{"passive", StateAccepting, kindQP,
			[]EventType{EventEstablished, EventAddrChange, EventDeviceRemoval},
			[]State{StateEstablished, StateEstablished, StateRemoved}},
		{"listener", StateListening, kindPlain,
			[]EventType{EventConnectRequest, EventDeviceRemoval}, []State{StateListening, StateRemoved}},
		{"datagrams", StateConnecting, kindDatagram,
			[]EventType{EventEstablished, EventUnreachable}, []State{StateEstablished, StateEstablished}},
		{"datagrams, refused", StateConnecting, kindDatagram, []EventType{EventUnreachable}, []State{StateFailed}},
		{"multicast", StateAddrResolved, kindDatagram,
			[]EventType{EventMulticastJoin, EventMulticastError}, []State{StateAddrResolved, StateAddrResolved}},
		{"an InfiniBand service", StateServiceQuery, kindPlain,
			[]EventType{EventAddrInfoResolved}, []State{StateServiceResolved}},
		{"an InfiniBand service that is not there", StateServiceQuery, kindPlain,
			[]EventType{EventAddrInfoError, EventUser}, []State{StateBound, StateBound}},
		{"a neighbour's new MAC before connecting", StateRouteResolved, kindQP,
			[]EventType{EventUnreachable}, []State{StateRouteResolved}},
	} {
		s := tc.start
		for i, e := range tc.events {
			s = transition(s, e, tc.k).next
			if s != tc.states[i] {
				t.Errorf("%s: after %v the state is %q, want %q", tc.name, e, s, tc.states[i])
			}
		}
	}
}

func TestNames(t *testing.T) {
	for s := range State(numStates) {
		if s.String() == "" {
			t.Errorf("state %d has no name", s)
		}
	}
	for e := range EventType(numEvents) {
		if !strings.HasPrefix(e.String(), "RDMA_CM_EVENT_") {
			t.Errorf("event %d is called %q", e, e)
		}
	}
	if s := EventType(77).String(); !strings.Contains(s, "77") {
		t.Errorf("unknown event is called %q", s)
	}
}
