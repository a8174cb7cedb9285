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
// Failed and Removed may follow any of them.
type State uint8

// The states of an ID.
const (
	StateIdle          State = iota // made, with no address
	StateBound                      // has a local address
	StateAddrQuery                  // ResolveAddr is under way
	StateAddrResolved               // the device and the neighbour are known
	StateRouteQuery                 // ResolveRoute is under way
	StateRouteResolved              // ready to connect
	StateConnecting                 // the request is sent
	StateResponded                  // the peer has accepted an ID without a QP; Establish is due
	StateRequested                  // came with a connect request, not answered yet
	StateAccepting                  // accepted, the peer has not confirmed
	StateEstablished                // connected
	StateDisconnected               // was connected
	StateListening                  // takes requests
	StateFailed                     // connecting has failed
	StateRemoved                    // its device is gone
	numStates          = iota
)

var stateNames = [numStates]string{
	StateIdle:          "idle",
	StateBound:         "bound",
	StateAddrQuery:     "resolving the address",
	StateAddrResolved:  "address resolved",
	StateRouteQuery:    "resolving the route",
	StateRouteResolved: "route resolved",
	StateConnecting:    "connecting",
	StateResponded:     "response received",
	StateRequested:     "connect request received",
	StateAccepting:     "accepting",
	StateEstablished:   "established",
	StateDisconnected:  "disconnected",
	StateListening:     "listening",
	StateFailed:        "failed",
	StateRemoved:       "device removed",
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
	actFlush                   // move the QP to the error state, which flushes it
	actRemove                  // give the device up
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
// hasQP tells the two kinds of active ID apart: only the library can answer a
// CONNECT_RESPONSE for an ID whose QP it knows.
func transition(s State, t EventType, hasQP bool) step {
	if t == EventConnectResponse && s == StateConnecting && hasQP {
		return step{StateEstablished, actEstablish}
	}
	if row, ok := transitions[t]; ok {
		if st, ok := row[s]; ok {
			return st
		}
	}
	if t == EventDeviceRemoval {
		return step{StateRemoved, actRemove}
	}
	return step{s, actNone}
}

var transitions = map[EventType]map[State]step{
	EventAddrResolved: {StateAddrQuery: {StateAddrResolved, actDevice}},
	// The kernel's state after an address error is that of a bound ID: the call
	// may be repeated.
	EventAddrError:     {StateAddrQuery: {StateBound, actNone}},
	EventRouteResolved: {StateRouteQuery: {StateRouteResolved, actNone}},
	EventRouteError:    {StateRouteQuery: {StateAddrResolved, actNone}},
	EventConnectResponse: {
		StateConnecting: {StateResponded, actNone},
	},
	EventEstablished: {
		StateConnecting: {StateEstablished, actNone},
		StateResponded:  {StateEstablished, actNone},
		StateAccepting:  {StateEstablished, actNone},
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
	EventRejected: {
		StateConnecting: {StateFailed, actFlush},
		StateResponded:  {StateFailed, actFlush},
		StateAccepting:  {StateFailed, actFlush},
	},
	EventDisconnected: {
		StateConnecting:  {StateDisconnected, actFlush},
		StateResponded:   {StateDisconnected, actFlush},
		StateAccepting:   {StateDisconnected, actFlush},
		StateEstablished: {StateDisconnected, actFlush},
	},
}
