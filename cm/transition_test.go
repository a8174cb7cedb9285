// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// tried is the whole state of a minimal kernel, an ID and the calls on it. The test skips a
// state that it has seen before.
type tried struct {
	kernel State        // the state of the kernel's ID, as a state of the library
	told   [3]EventType // the queued events, which have not been fetched
	queued int
	events int // the number of events that may still come

	calls [3]triedCall
	id    State
	begun [3]int8 // the running calls in their order, counted from 1
	qp    bool
	flush bool // the QP has been flushed
	ended bool // an event has ended the connection
}

type triedCall struct {
	op         string
	stage      int8 // 0 not begun, 1 begun, 2 executed by the kernel, 3 returned
	fails      bool
	transition pendingTransition
}

// triedCommands holds, for each command, the states in which the kernel accepts it and the
// next state.
var triedCommands = map[string]struct {
	from []State
	to   State
}{
	opBind:         {[]State{StateIdle}, StateBound},
	opListen:       {[]State{StateIdle, StateBound}, StateListening},
	opResolve:      {[]State{StateIdle, StateBound}, StateAddrQuery},
	opResolveRoute: {[]State{StateAddrResolved}, StateRouteQuery},
	opConnect:      {[]State{StateRouteResolved}, StateConnecting},
	opReject:       {[]State{StateConnecting, StateResponded, StateRequested, StateAccepting}, StateFailed},
	opEstablish:    {[]State{StateResponded}, StateEstablished},
	opAccept:       {[]State{StateRequested}, StateAccepting},
}

type triedEvent struct {
	typ EventType
	to  State
}

// triedEvents holds the possible events of each state of the kernel.
var triedEvents = map[State][]triedEvent{
	StateAddrQuery:   {{EventAddrResolved, StateAddrResolved}, {EventAddrError, StateBound}},
	StateRouteQuery:  {{EventRouteResolved, StateRouteResolved}, {EventRouteError, StateAddrResolved}},
	StateConnecting:  {{EventConnectResponse, StateResponded}, {EventRejected, StateFailed}},
	StateResponded:   {{EventRejected, StateFailed}},
	StateAccepting:   {{EventEstablished, StateEstablished}, {EventRejected, StateFailed}},
	StateEstablished: {{EventDisconnected, StateDisconnected}, {EventUnreachable, StateEstablished}},
}

// library sets the state of an ID from s.
func (s *tried) library(id *ID) {
	id.state, id.pending, id.qp = s.id, id.pending[:0], nil
	if s.qp {
		id.qp = &anyQP
	}
	for _, i := range s.begun {
		if i > 0 {
			id.pending = append(id.pending, &s.calls[i-1].transition)
		}
	}
}

var anyQP verbs.QP

// note sets the library's part of s from an ID.
func (s *tried) note(id *ID) {
	s.id, s.begun = id.state, [3]int8{}
	for n, t := range id.pending {
		for i := range s.calls {
			if t == &s.calls[i].transition {
				s.begun[n] = int8(i) + 1
			}
		}
	}
}

// begin begins a call. The call fails at once if the library sends no command.
func (s *tried) begin(c *triedCall) {
	var id ID
	s.library(&id)
	c.stage = 1
	var err error
	if c.op == opAccept {
		if id.swapState(StateRequested, StateAccepting) != StateRequested {
			err = syscall.EINVAL
		}
	} else {
		c.transition = pendingTransition{after: triedCommands[c.op].to, strict: c.op == opEstablish}
		err = begin(&id, c.op, &c.transition)
	}
	if err != nil {
		c.stage, c.transition = 3, pendingTransition{}
	}
	s.note(&id)
}

// execute executes a command in the kernel, or refuses it for an arbitrary reason.
func (s *tried) execute(c *triedCall, refuse bool) {
	cmd := triedCommands[c.op]
	c.stage, c.fails = 2, refuse || !slices.Contains(cmd.from, s.kernel)
	switch {
	case s.kernel == StateRemoved:
	case !c.fails:
		s.kernel = cmd.to
	case (c.op == opAccept || c.op == opEstablish) && slices.Contains(triedCommands[opReject].from, s.kernel):
		s.kernel = StateFailed // the kernel has rejected the peer
	}
}

// leave lets a call return.
func (s *tried) leave(c *triedCall) {
	var id ID
	s.library(&id)
	var err error
	if c.fails {
		err = syscall.EINVAL
	}
	switch {
	case c.op != opAccept:
		s.flush = id.endTransition(&c.transition, err) != nil || s.flush
	case c.fails:
		id.swapState(StateAccepting, StateFailed)
	}
	s.note(&id)
	c.stage, c.transition = 3, pendingTransition{}
}

// happen queues an event of the kernel.
func (s *tried) happen(ev triedEvent) {
	s.events--
	s.kernel = ev.to
	s.told[s.queued] = ev.typ
	s.queued++
	s.ended = s.ended || ev.to == StateFailed || ev.to == StateDisconnected
}

// fetch handles an event like [ID.apply].
func (s *tried) fetch() {
	var id ID
	typ := s.told[0]
	s.told = [3]EventType{s.told[1], s.told[2]}
	s.queued--
	s.library(&id)
	switch id.advance(typ) {
	case actFlush:
		s.flush = true
	case actEstablish:
		if s.kernel == StateResponded {
			s.kernel = StateEstablished
			break
		}
		id.fail(new(Event), EventConnectError, nil)
		s.flush = true
		if slices.Contains(triedCommands[opReject].from, s.kernel) {
			s.kernel = StateFailed
		}
	}
	s.note(&id)
}

// wrong returns the inconsistency between the library and the kernel after all calls have
// returned and all events have been fetched. It returns "" if they agree.
func (s *tried) wrong() string {
	over := func(s State) bool { return s == StateFailed || s == StateDisconnected }
	switch {
	case s.begun != [3]int8{}:
		return "calls are still registered"
	case s.kernel == s.id, over(s.kernel) && over(s.id):
	// The call was repeated before the error of the first one was fetched: see transitions.
	case s.kernel == StateAddrQuery && s.id == StateBound, s.kernel == StateRouteQuery && s.id == StateAddrResolved:
	default:
		return fmt.Sprintf("state = %q, in the kernel %q", s.id, s.kernel)
	}
	switch {
	case !s.qp || s.kernel == StateRemoved:
	case s.flush && !over(s.kernel):
		return "the QP of an established connection was flushed"
	case s.ended && !s.flush:
		return "the QP of a connection that has ended was not flushed"
	}
	return ""
}

// walk checks every state that can follow from s.
func (s tried) walk(seen map[tried]bool, way []string) error {
	if seen[s] {
		return nil
	}
	seen[s] = true
	step := func(what string, do func(s *tried)) error {
		next := s
		do(&next)
		return next.walk(seen, append(way[:len(way):len(way)], what))
	}
	quiet := s.queued == 0
	for i := range s.calls {
		var err error
		switch c := &s.calls[i]; c.stage {
		case 0:
			err = step("begin "+c.op, func(s *tried) { s.begin(&s.calls[i]) })
		case 1:
			if err = step(c.op+" in the kernel", func(s *tried) { s.execute(&s.calls[i], false) }); err == nil && c.op != opEstablish {
				err = step(c.op+" refused", func(s *tried) { s.execute(&s.calls[i], true) })
			}
		case 2:
			err = step("end "+c.op, func(s *tried) { s.leave(&s.calls[i]) })
		}
		quiet = quiet && s.calls[i].stage == 3
		if err != nil {
			return err
		}
	}
	if s.queued > 0 {
		if err := step("fetch", (*tried).fetch); err != nil {
			return err
		}
	}
	if s.events > 0 && s.kernel != StateRemoved {
		for _, ev := range append(triedEvents[s.kernel], triedEvent{EventDeviceRemoval, StateRemoved}) {
			// The user of an ID without a QP may call Establish before Connect has returned.
			// At that moment the library would take a hint for the end of the connection.
			if ev.typ == EventUnreachable && !s.qp {
				continue
			}
			if err := step(ev.typ.String(), func(s *tried) { s.happen(ev) }); err != nil {
				return err
			}
		}
	}
	if why := s.wrong(); quiet && why != "" {
		return fmt.Errorf("%s, after %s", why, strings.Join(way, ", "))
	}
	return nil
}

// TestCallsAtOnce checks all overlaps of two or three calls. They may begin, reach the kernel
// and return in any order, with events in between. At the end the library's state agrees with
// the kernel's, and the QP is flushed if and only if an event has ended the connection.
func TestCallsAtOnce(t *testing.T) {
	var ops []string
	for op := range triedCommands {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	n := 0
	try := func(events int, ops ...string) {
		seen := map[tried]bool{}
		for state := range State(numStates) {
			for _, qp := range []bool{false, true} {
				s := tried{kernel: state, id: state, events: events, qp: qp}
				for i := range s.calls {
					s.calls[i].stage = 3
				}
				establish := slices.Contains(ops, opEstablish) // the library itself calls it with a QP
				if qp && establish || len(ops) == 3 && qp == establish {
					continue
				}
				for i, op := range ops {
					s.calls[i] = triedCall{op: op}
				}
				if err := s.walk(seen, nil); err != nil {
					t.Errorf("%q, QP %v: %v", state, qp, err)
				}
			}
		}
		n += len(seen)
	}
	for i, a := range ops {
		for j, b := range ops[i:] {
			if vmtest.Inside() { // it needs no kernel
				try(1, a, b)
				continue
			}
			try(3, a, b)
			for _, c := range ops[i+j:] {
				if longtest.Enabled() {
					try(1, a, b, c)
				}
			}
		}
	}
	t.Logf("%d situations", n)
}

// begin calls beginTransition with the lock held.
func begin(id *ID, op string, t *pendingTransition) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.beginTransition(op, id.current(), t)
}
