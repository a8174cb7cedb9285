// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"slices"
	"strings"
	"testing"
)

// every calls fn with each combination of arguments of transition, including unknown events.
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
			t.Fatalf("transition(%v, %v) = state %d, want less than %d", s, e, st.next, numStates)
		}
		bad := func(what string) { t.Errorf("%v in %q: %s", e, s, what) }
		if (st.next == StateRemoved) != (e == EventDeviceRemoval || s == StateRemoved) {
			bad("the state removed follows only from DEVICE_REMOVAL")
		}
		if (st.do == actRemove) != (e == EventDeviceRemoval) {
			bad("actRemove follows from DEVICE_REMOVAL, and only from it")
		}
		if st.next == StateEstablished && s != StateEstablished && !slices.Contains(connecting, s) {
			bad("the state established follows only from a connecting state")
		}
		if s == StateEstablished && st.next != StateEstablished && e != EventDisconnected && e != EventRejected && e != EventDeviceRemoval {
			bad("only DISCONNECTED, REJECTED and DEVICE_REMOVAL end an established connection")
		}
		if (st.do == actEstablish) != (e == EventConnectResponse && s == StateConnecting && k == kindQP) {
			bad("actEstablish follows only from the response to a connecting ID with a QP")
		}
		if st.do == actFlush && k == kindDatagram {
			bad("a datagram QP also serves other peers, and must not be flushed")
		}
		if st.do == actFlush && st.next != StateFailed && st.next != StateDisconnected {
			bad("a QP is flushed only when its connection has ended")
		}
		if over := s == StateFailed || s == StateDisconnected; over && st.next != s && e != EventDeviceRemoval {
			bad("an ended connection stays in its state")
		}
		if int(e) >= numEvents && (st != step{s, actNone}) {
			bad("an unknown event must change nothing")
		}
	})
}

// TestNoSequenceEstablishesTwice applies every sequence of four events to every state. No
// sequence moves a QP twice.
func TestNoSequenceEstablishesTwice(t *testing.T) {
	var walk func(s State, k kind, established, depth int)
	walk = func(s State, k kind, established, depth int) {
		if established > 1 {
			t.Fatal("a sequence of events has actEstablish twice, want at most once")
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
		{"address error", StateAddrQuery, kindPlain, []EventType{EventAddrError}, []State{StateBound}},
		{"address resolved again before the error is fetched", StateAddrQuery, kindPlain,
			[]EventType{EventAddrError, EventAddrResolved}, []State{StateBound, StateAddrResolved}},
		{"route resolved again before the error is fetched", StateRouteQuery, kindPlain,
			[]EventType{EventRouteError, EventRouteResolved}, []State{StateAddrResolved, StateRouteResolved}},
		{"active with a QP", StateConnecting, kindQP,
			[]EventType{EventConnectResponse, EventUnreachable, EventDisconnected, EventTimewaitExit},
			[]State{StateEstablished, StateEstablished, StateDisconnected, StateDisconnected}},
		{"active without a QP", StateConnecting, kindPlain,
			[]EventType{EventConnectResponse, EventRejected}, []State{StateResponded, StateFailed}},
		{"active, peer dies before the confirmation", StateConnecting, kindQP,
			[]EventType{EventConnectResponse, EventRejected, EventDisconnected}, []State{StateEstablished, StateDisconnected, StateDisconnected}},
		{"active on iWARP", StateConnecting, kindQP, []EventType{EventEstablished}, []State{StateEstablished}},
		{"passive", StateAccepting, kindQP,
			[]EventType{EventEstablished, EventAddrChange, EventDeviceRemoval},
			[]State{StateEstablished, StateEstablished, StateRemoved}},
		{"listener", StateListening, kindPlain,
			[]EventType{EventConnectRequest, EventDeviceRemoval}, []State{StateListening, StateRemoved}},
		{"datagrams", StateConnecting, kindDatagram,
			[]EventType{EventEstablished, EventUnreachable}, []State{StateEstablished, StateEstablished}},
		{"datagrams, rejected", StateConnecting, kindDatagram, []EventType{EventUnreachable}, []State{StateFailed}},
		{"multicast", StateAddrResolved, kindDatagram,
			[]EventType{EventMulticastJoin, EventMulticastError}, []State{StateAddrResolved, StateAddrResolved}},
		{"InfiniBand service", StateServiceQuery, kindPlain,
			[]EventType{EventAddrInfoResolved}, []State{StateServiceResolved}},
		{"missing InfiniBand service", StateServiceQuery, kindPlain,
			[]EventType{EventAddrInfoError, EventUser}, []State{StateBound, StateBound}},
		{"new MAC of a neighbour before connecting", StateRouteResolved, kindQP,
			[]EventType{EventUnreachable}, []State{StateRouteResolved}},
	} {
		s := tc.start
		for i, e := range tc.events {
			s = transition(s, e, tc.k).next
			if s != tc.states[i] {
				t.Errorf("%s: state after %v = %q, want %q", tc.name, e, s, tc.states[i])
			}
		}
	}
}

func TestNames(t *testing.T) {
	for s := range State(numStates) {
		if s.String() == "" {
			t.Errorf("String() of state %d = \"\", want a name", s)
		}
	}
	for e := range EventType(numEvents) {
		if !strings.HasPrefix(e.String(), "RDMA_CM_EVENT_") {
			t.Errorf("String() of event %d = %q, want the prefix RDMA_CM_EVENT_", e, e)
		}
	}
	if s := EventType(77).String(); !strings.Contains(s, "77") {
		t.Errorf("String() of event 77 = %q, want the number", s)
	}
}
