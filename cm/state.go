// SPDX-License-Identifier: Apache-2.0

package cm

import "fmt"

// State is the progress of an ID, according to the events that were fetched and the calls that
// were made. The kernel's own state may be ahead of it.
//
// The connecting side:
//
//	Idle -> AddrQuery -> AddrResolved -> RouteQuery -> RouteResolved
//	     -> Connecting [-> Responded] -> Established -> Disconnected
//
// The accepting side, and the listener:
//
//	Requested -> Accepting -> Established -> Disconnected
//	Idle -> Bound -> Listening
//
// A datagram ID is Established when it has received an answer, or has sent one. It then has the
// address of the other side, and there is no connection that ends. A datagram ID that only
// joins multicast groups stays Bound or AddrResolved.
//
// The look-up of an InfiniBand service comes before the route:
//
//	Bound -> ServiceQuery -> ServiceResolved -> RouteQuery
//
// Failed and Removed may follow any state.
type State uint8

// The states of an ID. No call leads from a state to a state above it.
const (
	StateIdle            State = iota // made, with no address.
	StateBound                        // has a local address.
	StateServiceQuery                 // ResolveIBService is under way.
	StateServiceResolved              // the records of the service are known.
	StateAddrQuery                    // ResolveAddr is under way.
	StateAddrResolved                 // the device and the neighbor are known.
	StateRouteQuery                   // ResolveRoute is under way.
	StateRouteResolved                // ready to connect.
	StateConnecting                   // the request is sent.
	StateResponded                    // the peer has accepted an ID without a QP, and Establish is due.
	StateRequested                    // came with a connect request, not answered yet.
	StateAccepting                    // accepted, the peer has not confirmed.
	StateEstablished                  // connected.
	StateDisconnected                 // was connected.
	StateListening                    // takes requests.
	StateFailed                       // connecting has failed.
	StateRemoved                      // its device was removed.
	numStates            = iota
)

var stateNames = [numStates]string{
	StateIdle:            "idle",
	StateBound:           "bound",
	StateAddrQuery:       "resolving the address",
	StateAddrResolved:    "address resolved",
	StateRouteQuery:      "resolving the route",
	StateRouteResolved:   "route resolved",
	StateConnecting:      "connecting",
	StateResponded:       "response received",
	StateRequested:       "connect request received",
	StateAccepting:       "accepting",
	StateEstablished:     "established",
	StateDisconnected:    "disconnected",
	StateListening:       "listening",
	StateServiceQuery:    "resolving the service",
	StateServiceResolved: "service resolved",
	StateFailed:          "failed",
	StateRemoved:         "device removed",
}

func (s State) String() string {
	if int(s) < numStates {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// action is the library's reaction to an event, before it delivers the event.
type action uint8

const (
	actNone      action = iota // no action.
	actDevice                  // open the device that the address led to.
	actEstablish               // move the QP, confirm, and deliver ESTABLISHED.
	actReady                   // on iWARP, mark the QP as ready to send.
	actFlush                   // move the QP to the error state, which flushes it.
	actRemove                  // mark the device as removed.
)

// kind is a property of the ID. With the state it determines the meaning of an event.
type kind uint8

const (
	kindPlain    kind = iota // an ID for connections, without a QP
	kindQP                   // an ID for connections, with a QP
	kindDatagram             // an ID for datagrams
	numKinds     = iota
)

// step is one entry of the table. It holds the state after an event, and the action.
type step struct {
	next State
	do   action
}

// transition looks up the meaning of an event in a state. Every event may come in every state.
// The table lists the events that change something. All other events leave the state unchanged
// and are only delivered.
//
// Only the library can answer a CONNECT_RESPONSE for an ID that has a QP. The QP of a datagram
// ID also serves other peers, so the failure of one peer does not flush it.
func transition(s State, t EventType, k kind) step {
	if t == EventConnectResponse && s == StateConnecting && k == kindQP {
		return step{StateEstablished, actEstablish}
	}
	if int(t) < len(steps) && int(s) < numStates && steps[t][s].listed {
		st := steps[t][s].step
		if k == kindDatagram && st.do == actFlush {
			st.do = actNone
		}
		return st
	}
	if t == EventDeviceRemoval {
		return step{StateRemoved, actRemove}
	}
	return step{s, actNone}
}

// steps holds the table by event and state.
var steps = func() (table [numEvents][numStates]struct {
	listed bool
	step
}) {
	for t, of := range transitions {
		for s, st := range of {
			table[t][s].listed, table[t][s].step = true, st
		}
	}
	return table
}()

var transitions = map[EventType]map[State]step{
	// After an address error the kernel's state is the state of a bound ID. The call may be
	// repeated, even before that error has been fetched. The outcome of the second call then
	// finds the ID in the state after the error.
	EventAddrResolved: {
		StateAddrQuery: {StateAddrResolved, actDevice},
		StateBound:     {StateAddrResolved, actDevice},
	},
	EventAddrError: {StateAddrQuery: {StateBound, actNone}},
	EventRouteResolved: {
		StateRouteQuery:   {StateRouteResolved, actNone},
		StateAddrResolved: {StateRouteResolved, actNone},
	},
	EventRouteError: {StateRouteQuery: {StateAddrResolved, actNone}},

	EventAddrInfoResolved: {StateServiceQuery: {StateServiceResolved, actNone}},
	EventAddrInfoError:    {StateServiceQuery: {StateBound, actNone}},
	EventConnectResponse: {
		StateConnecting: {StateResponded, actNone},
	},
	EventEstablished: {
		StateConnecting: {StateEstablished, actReady},
		StateResponded:  {StateEstablished, actReady},
		StateAccepting:  {StateEstablished, actReady},
	},
	EventConnectError: {
		StateConnecting: {StateFailed, actFlush},
		StateResponded:  {StateFailed, actFlush},
		StateAccepting:  {StateFailed, actFlush},
	},
	// On an established ID it is a hint (the neighbor's MAC), and before CONNECT it is also a
	// hint. Neither case is listed here.
	EventUnreachable: {
		StateConnecting: {StateFailed, actFlush},
		StateResponded:  {StateFailed, actFlush},
		StateAccepting:  {StateFailed, actFlush},
	},
	// On an established ID it means that the peer has accepted, and has left before the
	// confirmation arrived there.
	EventRejected: {
		StateConnecting:  {StateFailed, actFlush},
		StateResponded:   {StateFailed, actFlush},
		StateAccepting:   {StateFailed, actFlush},
		StateEstablished: {StateDisconnected, actFlush},
	},
	EventDisconnected: {
		StateConnecting:  {StateDisconnected, actFlush},
		StateResponded:   {StateDisconnected, actFlush},
		StateAccepting:   {StateDisconnected, actFlush},
		StateEstablished: {StateDisconnected, actFlush},
	},
}
