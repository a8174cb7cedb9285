// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"purerdma/ucma"
	"purerdma/verbs"
)

// run runs one command of the kernel on the ID, and makes the transition t that the command
// causes, nil for none. All commands use run, except the commands that create, migrate and
// destroy the ID.
func (id *ID) run(op string, t *pendingTransition, fn func(f *ucma.File, kid uint32) error) error {
	id.moving.RLock()
	defer id.moving.RUnlock()
	id.mu.Lock()
	if !id.gate.enter() {
		id.mu.Unlock()
		return id.opError(op, net.ErrClosed)
	}
	was, file := id.current(), id.file()
	err := id.beginTransition(op, was, t)
	id.mu.Unlock()
	defer id.leave()
	if err == nil {
		err = fn(file, id.kid)
		if t != nil {
			if qp := id.endTransition(t, err); qp != nil {
				flushQP(qp)
			}
		}
	}
	id.mu.Lock()
	id.recordOp(recCall, op, err)
	id.mu.Unlock()
	if err != nil {
		return id.opError(op, misuse(op, was, err))
	}
	return nil
}

// gate counts the calls and commands that use an ID. It closes once. The kernel reuses the
// number of an ID as soon as the ID is destroyed, so a later command would affect another
// connection. id.mu guards the gate.
type gate struct {
	inside int32
	closed atomic.Bool   // written with id.mu held, read by posting without it
	empty  chan struct{} // set by shut, closed when the last call has left
}

// This channel is closed. It serves all gates that were shut while no call was inside.
var nobody = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// enter admits a call. It returns false if the gate is shut.
func (g *gate) enter() bool {
	if g.closed.Load() {
		return false
	}
	g.inside++
	return true
}

func (g *gate) isShut() bool { return g.closed.Load() }

// enter prevents the destruction of the ID until leave. It fails after Close.
func (id *ID) enter(op string) error {
	id.mu.Lock()
	ok := id.gate.enter()
	id.mu.Unlock()
	if !ok {
		return id.opError(op, net.ErrClosed)
	}
	return nil
}

// leave undoes enter.
func (id *ID) leave() {
	id.mu.Lock()
	g := &id.gate
	g.inside--
	if g.inside == 0 && g.closed.Load() {
		close(g.empty)
	}
	id.mu.Unlock()
}

// shut stops admitting calls. It returns true to the first caller, and a channel that
// is closed when no call is inside.
func (id *ID) shut() (first bool, empty <-chan struct{}) {
	id.mu.Lock()
	defer id.mu.Unlock()
	g := &id.gate
	if g.closed.Load() {
		return false, g.empty
	}
	g.closed.Store(true)
	id.recordOp(recCall, opDestroy, nil)
	g.empty = nobody
	if g.inside > 0 {
		g.empty = make(chan struct{})
	}
	return true, g.empty
}

// pendingTransition is the transition of a command that has not returned. It takes the ID into
// a new state if the command succeeds. The events that end that state may be fetched before
// the command returns, so the transition has its own view of the ID. This view becomes the
// view of the ID if the command succeeds, and is dropped if it fails.
type pendingTransition struct {
	// after is the state of the ID if the command succeeds, with the effect of events since.
	after State
	// to is the destination of ResolveAddr. It is the ID's peer until the kernel reports the peer.
	to Addr
	// strict is set if the library, not the kernel, refuses the command in a wrong state.
	strict bool

	// wrong is set if the known state does not allow the command. The ID is then not in the
	// state after yet.
	wrong bool
	// flush is set by an event that ends the connection if the command succeeds.
	flush bool
}

// to returns the transition of a command that leads to state s.
func to(s State) *pendingTransition { return &pendingTransition{after: s} }

// beginTransition checks the state for a command, and adds the command's transition, nil for
// none. The caller holds id.mu.
func (id *ID) beginTransition(op string, was State, t *pendingTransition) error {
	if was == StateRemoved {
		// The kernel also refuses commands, but some drivers accept a few after the removal.
		return syscall.ENXIO
	}
	if t == nil {
		return nil
	}
	t.wrong = !slices.Contains(possible[op], was)
	if t.wrong && t.strict {
		return wrongState(was, possible[op]...)
	}
	id.pending = append(id.pending, t)
	return nil
}

// endTransition commits the transition of a command that has returned, or drops it if err is
// not nil. It returns the QP if the caller must flush it.
func (id *ID) endTransition(t *pendingTransition, err error) (flush *verbs.QP) {
	id.mu.Lock()
	defer id.mu.Unlock()
	i := slices.Index(id.pending, t)
	id.pending = slices.Delete(id.pending, i, i+1)
	if err != nil {
		return nil
	}
	id.setState(t.after)
	if t.to.IsValid() {
		id.remote = t.to
	}
	if t.flush {
		return id.qp
	}
	return nil
}

// setState takes the ID to a state that it is certainly in. In the kernel, calls only lead
// forward. A concurrent call that succeeds leads at least as far, in whichever order the
// kernel runs the calls. The caller holds id.mu.
func (id *ID) setState(state State) {
	id.state = state
	for _, t := range id.pending {
		t.after = max(t.after, state)
	}
}

// current returns the state of the ID on the assumption that the running commands succeed. It
// ignores commands that the known state does not allow. The caller holds id.mu.
func (id *ID) current() State {
	if len(id.pending) == 0 {
		return id.state
	}
	for _, t := range slices.Backward(id.pending) {
		if !t.wrong {
			return t.after
		}
	}
	return id.state
}

// swapState takes the ID from one state to another, and returns the previous state. If the
// previous state is not from, nothing has changed.
func (id *ID) swapState(from, to State) (was State) {
	id.mu.Lock()
	defer id.mu.Unlock()
	was = id.current()
	if was == from {
		id.setState(to)
	}
	return was
}

// advance makes the transition of the table for an event. It does so for the ID's state and
// for the state that the ID would have after each running command. It returns the action for
// the event. The caller holds id.mu.
func (id *ID) advance(t EventType) action {
	k := id.kind()
	st := transition(id.state, t, k)
	id.state = st.next
	do := st.do
	for _, p := range id.pending {
		st := transition(p.after, t, k)
		p.after = st.next
		switch st.do {
		case actNone:
		case actFlush:
			p.flush = true // a failed call ends no connection
		default:
			do = st.do
		}
	}
	return do
}

// opError adds the operation and the addresses to an error. Every command on an ID whose
// device was removed fails with ENXIO.
func (id *ID) opError(op string, err error) error {
	if errors.Is(err, syscall.ENXIO) {
		err = id.removedError()
	}
	return &OpError{Op: op, Local: id.LocalAddr(), Remote: id.RemoteAddr(), Err: err}
}

// file returns the channel's file for commands on the ID. The driver of the ID's device decides
// how the commands are made. The caller holds id.mu.
func (id *ID) file() *ucma.File {
	if id.dev == nil {
		return id.ch.file
	}
	return id.ch.file.On(id.dev.DriverID())
}

func (id *ID) transport() verbs.Transport {
	if dev := id.Device(); dev != nil {
		return dev.Transport()
	}
	return verbs.TransportIB
}

// StateError is the error of a call that the state of the ID does not allow. It wraps EINVAL,
// which the kernel returned or which the library returned without a command.
type StateError struct {
	State State   // of the ID, when the call was made
	Want  []State // the states in which the call is possible
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

// possible lists the states in which the kernel allows a call, for calls that it does not
// allow in every state. The kernel decides, and the table only explains its refusal. The
// kernel's state may be ahead of the fetched events.
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

// withDevice lists the states in which an ID certainly has a device.
var withDevice = []State{StateAddrResolved, StateRouteResolved, StateRequested}

var errNoDevice = fmt.Errorf("the ID is bound to no device: its address or its route is not resolved: %w", syscall.EINVAL)

// noDevice returns the error of a call on an ID that has no device yet.
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

// misuse explains an EINVAL by the state of the ID before the call.
func misuse(op string, was State, err error) error {
	want, ok := possible[op]
	if !ok || !errors.Is(err, syscall.EINVAL) || slices.Contains(want, was) {
		return err
	}
	if _, ok := err.(*StateError); ok {
		return err // already a more exact explanation
	}
	return &StateError{State: was, Want: want, Err: err}
}

// wrongState returns the error of misuse for a call that is not passed to the kernel.
func wrongState(was State, want ...State) error {
	if was == StateRemoved {
		return syscall.ENXIO
	}
	return &StateError{State: was, Want: want, Err: syscall.EINVAL}
}
