// SPDX-License-Identifier: Apache-2.0

package cm

import "fmt"

// State is how far an ID has come, as far as the events that were fetched and
// the calls that were made tell. The kernel's own state may be ahead of it.
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
// An ID of datagrams is Established when it has been answered, or has answered:
// it knows the other side, and nothing ends. One that only joins multicast groups
// stays Bound or AddrResolved.
//
// Looking an InfiniBand service up comes before the route:
//
//	Bound -> ServiceQuery -> ServiceResolved -> RouteQuery
//
// Failed and Removed may follow any of them.
type State uint8

// The states of an ID. No call leads from one to one that is above it.
const (
	StateIdle            State = iota // made, with no address
	StateBound                        // has a local address
	StateServiceQuery                 // ResolveIBService is under way
	StateServiceResolved              // the records of the service are known
	StateAddrQuery                    // ResolveAddr is under way
	StateAddrResolved                 // the device and the neighbour are known
	StateRouteQuery                   // ResolveRoute is under way
	StateRouteResolved                // ready to connect
	StateConnecting                   // the request is sent
	StateResponded                    // the peer has accepted an ID without a QP; Establish is due
	StateRequested                    // came with a connect request, not answered yet
	StateAccepting                    // accepted, the peer has not confirmed
	StateEstablished                  // connected
	StateDisconnected                 // was connected
	StateListening                    // takes requests
	StateFailed                       // connecting has failed
	StateRemoved                      // its device is gone
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

// action is what the library does about an event before it hands it out.
type action uint8

const (
	actNone      action = iota // hand it out
	actDevice                  // open the device that the address led to
	actEstablish               // move the QP, confirm, and hand out ESTABLISHED
	actReady                   // on iWARP, tell the QP that it is ready to send
	actFlush                   // move the QP to the error state, which flushes it
	actRemove                  // give the device up
)

// kind is what an event's meaning depends on beside the state.
type kind uint8

const (
	kindPlain    kind = iota // an ID of connections, without a QP
	kindQP                   // one that has a QP
	kindDatagram             // an ID of datagrams
	numKinds     = iota
)

// step is one entry of the table: the state after an event, and what to do.
type step struct {
	next State
	do   action
}

// transition looks up what an event means in a state. Every event may come in
// every state: the table lists those that change something, all others leave the
// state as it is and are just handed out.
//
// Only the library can answer a CONNECT_RESPONSE for an ID whose QP it knows. The
// QP of a datagram ID serves other peers, too: the failure of one does not flush
// it.
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

// steps has the table by event and state.
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
	// The kernel's state after an address error is that of a bound ID: the call
	// may be repeated, also before that error has been fetched. What comes of the
	// second then finds the ID where the error has put it.
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
	// On an established ID it is a hint (the neighbour's MAC), and before
	// CONNECT too: neither is listed here.
	EventUnreachable: {
		StateConnecting: {StateFailed, actFlush},
		StateResponded:  {StateFailed, actFlush},
		StateAccepting:  {StateFailed, actFlush},
	},
	// On an established ID: the peer has accepted, and has gone before it knew that
	// we are connected.
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
