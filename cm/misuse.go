// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"purerdma/verbs"
)

// StateError says that a call does not fit the state of its ID. It wraps what the
// kernel answered, or the reason not to ask it: both are EINVAL.
type StateError struct {
	State State   // of the ID, when the call was made
	Want  []State // those in which the call is possible
	Err   error
}

func (e *StateError) Error() string {
	want := make([]string, len(e.Want))
	for i, s := range e.Want {
		want[i] = s.String()
	}
	return fmt.Sprintf(`the ID is "%v", it must be "%s" (%v)`, e.State, strings.Join(want, `" or "`), e.Err)
}

// Unwrap returns Err.
func (e *StateError) Unwrap() error { return e.Err }

// ArgumentError reports that an argument of a call, or a field of one, cannot be used. Nothing
// has been sent or changed, but a request whose Accept fails is rejected. It wraps
// syscall.EINVAL.
type ArgumentError struct {
	Name   string // of the argument or field, as "InitiatorDepth" or "len(PrivateData)"
	Value  any    // that was given
	Max    int    // largest possible value, or -1 if that is not what is wrong
	Reason string // what sets the limit, or what is wrong
}

func (e *ArgumentError) Error() string {
	if e.Max < 0 {
		return fmt.Sprintf("%s is %v: %s", e.Name, e.Value, e.Reason)
	}
	return fmt.Sprintf("%s is %v, at most %d is possible: %s", e.Name, e.Value, e.Max, e.Reason)
}

// Unwrap returns EINVAL.
func (e *ArgumentError) Unwrap() error { return syscall.EINVAL }

// possible lists the states in which the kernel takes a call, for those that it
// does not take in all. The kernel is asked first, and the table only explains
// its refusal: what it knows may be ahead of the events that were fetched.
var possible = map[string][]State{
	opBind:         {StateIdle},
	opResolve:      {StateIdle, StateBound},
	opResolveRoute: {StateAddrResolved, StateServiceResolved},
	opSetPath:      {StateAddrResolved},
	opService:      {StateBound},
	opListen:       {StateIdle, StateBound},
	opConnect:      {StateRouteResolved},
	opReject:       {StateRequested, StateResponded},
	opEstablish:    {StateResponded},
	opJoin:         {StateBound, StateAddrResolved},
	opNotify:       {StateAccepting},
	opNotifyMig:    {StateEstablished},
	opDisconnect:   {StateResponded, StateAccepting, StateEstablished, StateDisconnected},
	opReuseAddr:    {StateIdle, StateBound},
	opNoReuseAddr:  {StateIdle},
	opAFOnly:       {StateIdle, StateBound},

	opInitAttrs[verbs.QPInit]: {StateBound, StateAddrResolved, StateRouteResolved, StateConnecting, StateResponded, StateRequested, StateAccepting, StateEstablished},
	opInitAttrs[verbs.QPRTR]:  {StateResponded, StateRequested, StateAccepting, StateEstablished},
	opInitAttrs[verbs.QPRTS]:  {StateResponded, StateRequested, StateAccepting, StateEstablished},
}

// withDevice lists the states in which an ID has a device for certain.
var withDevice = []State{StateAddrResolved, StateRouteResolved, StateRequested}

var errNoDevice = fmt.Errorf("the ID is bound to no device: its address or its route is not resolved: %w", syscall.EINVAL)

// noDevice is the error of a call on an ID that has no device yet.
func (id *ID) noDevice(op string) error {
	was, want := id.State(), possible[op]
	if was == StateRemoved {
		return id.opError(op, syscall.ENXIO)
	}
	if want == nil {
		want = withDevice
	}
	if slices.Contains(want, was) {
		return id.opError(op, errNoDevice)
	}
	return id.opError(op, &StateError{State: was, Want: want, Err: errNoDevice})
}

// misuse explains an EINVAL by the state that the ID was in.
func misuse(op string, was State, err error) error {
	want, ok := possible[op]
	if !ok || !errors.Is(err, syscall.EINVAL) || slices.Contains(want, was) {
		return err
	}
	if _, ok := err.(*StateError); ok {
		return err // which knows better
	}
	return &StateError{State: was, Want: want, Err: err}
}

// wrongState is misuse for a call that the kernel is not asked for.
func wrongState(was State, want ...State) error {
	if was == StateRemoved {
		return syscall.ENXIO
	}
	return &StateError{State: was, Want: want, Err: syscall.EINVAL}
}
