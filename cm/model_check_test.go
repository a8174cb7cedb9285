// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"purerdma/verbs"
)

// stateOf holds, for each state of the kernel, the possible states of the library after it has
// got all events.
var stateOf = map[modelState][]State{
	modelIdle:          {StateIdle},
	modelBound:         {StateBound},
	modelAddrQuery:     {StateAddrQuery},
	modelAddrResolved:  {StateAddrResolved},
	modelRouteQuery:    {StateRouteQuery},
	modelRouteResolved: {StateRouteResolved},
	modelReqSent:       {StateConnecting},
	modelReqRcvd:       {StateRequested},
	modelRepSent:       {StateAccepting},
	modelRepRcvd:       {StateResponded},
	modelEstablished:   {StateEstablished},
	modelDreqSent:      {StateEstablished, StateAccepting}, // until the answer comes. The other side may be early
	modelEnded:         {StateFailed, StateDisconnected},
	modelListening:     {StateListening},
	modelRemoved:       {StateRemoved},
}

// endOf returns the state that the final event of an ID leads to.
func endOf(was State, typ EventType) State {
	switch {
	case typ == EventDeviceRemoval:
		return StateRemoved
	case was == StateFailed || was == StateDisconnected:
		return was
	case typ == EventDisconnected || was == StateEstablished:
		return StateDisconnected
	}
	return StateFailed
}

// modelHandle is the user's view of an ID.
type modelHandle struct {
	id     *ID
	m      *modelID
	ch     *modelChannel
	last   State // at the last check
	heard  int   // the newest turn of the kernel's ID that the library has seen
	moves  []modelMove
	told   EventType // last fetched event since then
	failed bool      // failure of the library since then
	qp     bool      // with a QP at the last check
	gone   bool      // closed
	left   bool      // QP not checked any more, see lookAtQP
	held   int       // unacknowledged events
	groups []*modelMember
}

// quiesceAndCheck waits until all goroutines are blocked, and checks the channels, the IDs and the
// waiting calls.
func (r *modelRun) quiesceAndCheck() error {
	if err := r.quiesce(); err != nil {
		return err
	}
	r.k.during = nil
	for _, mv := range r.k.moves {
		if h := r.by[mv.id]; h != nil {
			h.moves = append(h.moves, mv)
		}
	}
	r.k.moves = nil
	for _, c := range r.chans {
		if err := r.account(c); err != nil {
			return err
		}
	}
	for _, h := range r.handles {
		if err := r.look(h); err != nil {
			return err
		}
	}
	return r.lookAtWaits()
}

// account compares the fetched events with the events that the library has delivered.
func (r *modelRun) account(c *modelChannel) error {
	handed := c.f.handed
	c.f.handed = nil
	select {
	case res := <-c.results:
		ended := c.cancel
		c.cancel = nil
		ended()
		switch {
		case res.err == nil && len(handed) == 0:
			return fmt.Errorf("Next() = %v without an event of the kernel", res.ev)
		case res.err == nil:
			ev := handed[len(handed)-1]
			handed = handed[:len(handed)-1]
			if err := r.got(c, ev, res.ev); err != nil {
				return err
			}
		case errors.Is(res.err, context.Canceled), c.gone && errors.Is(res.err, net.ErrClosed):
		default:
			return fmt.Errorf("Next: %w", res.err)
		}
	default:
	}
	for _, ev := range handed {
		c.dropped++
		if err := r.drop(ev); err != nil {
			return err
		}
	}
	if c.cancel != nil && len(c.f.events) > 0 {
		return errors.New("Next still waits although there is an event")
	}
	if n := c.ch.Dropped(); n != c.dropped {
		return fmt.Errorf("Dropped() = %d, want %d", n, c.dropped)
	}
	return nil
}

// drop checks that an event without delivery was dropped for a reason.
func (r *modelRun) drop(ev modelEvent) error {
	h := r.by[ev.move.id]
	switch {
	case h.gone:
		r.seen["event of an ID that was closed before the fetch"]++
		return nil
	case ev.child != nil && ev.child.state == modelRemoved:
		r.seen["request on a removed device"]++
		return nil
	case ev.group != nil && (ev.group.left || r.members[ev.group] != nil && r.members[ev.group].left):
		r.seen["event of an ended membership"]++
		return nil
	}
	return fmt.Errorf("event %v of kernel ID %d was lost", EventType(ev.resp.Event), ev.resp.ID)
}

// got checks an event that the user gets.
func (r *modelRun) got(c *modelChannel, raw modelEvent, ev *Event) error {
	typ := EventType(raw.resp.Event)
	r.note("%v", ev)
	h := r.by[raw.move.id]
	if h.gone {
		return fmt.Errorf("Next() = %v of a closed ID", ev)
	}
	_ = ev.Err()
	if raw.group != nil {
		return r.gotMulticast(h, raw, ev)
	}
	if raw.child != nil {
		if typ != ev.Type || ev.Listener != h.id || r.of[ev.ID] != nil || ev.ID.kid != raw.child.kid {
			return fmt.Errorf("request of %v was delivered as %v", h.id, ev)
		}
		r.own(ev.ID, raw.child, c)
		r.hold(ev, h, nil)
		return nil
	}
	h.told = typ
	if raw.move.turn >= 0 {
		h.moves = append(h.moves, raw.move)
	}
	// A failure that the library reports must have a reason in the kernel.
	over := h.m.state == modelRemoved || h.m.state == modelEnded || h.left
	switch {
	case ev.ID != h.id || ev.Listener != nil || ev.Multicast != nil:
		return fmt.Errorf("event of %v was delivered as %v", h.id, ev)
	case ev.Type == typ && ev.Status == int(int32(raw.resp.Status)):
	case typ == EventConnectResponse && ev.Type == EventEstablished:
		r.seen["response that the library answers"]++
	case typ == EventConnectResponse && ev.Type == EventConnectError && over,
		typ == EventAddrResolved && ev.Type == EventAddrError && over:
		h.failed = true
		r.seen["failure that the library reports"]++
	default:
		return fmt.Errorf("%v, status %d, was delivered as %v: %w", typ, int32(raw.resp.Status), ev, ev.Err())
	}
	if h.m.ud && typ == EventEstablished && ev.UD.QPN != raw.resp.UD().QPNum {
		return fmt.Errorf("QPN of the answer = %d, want %d", ev.UD.QPN, raw.resp.UD().QPNum)
	}
	r.place(h, ev)
	r.hold(ev, h, nil)
	return nil
}

// look checks the state of an ID.
func (r *modelRun) look(h *modelHandle) error {
	got, was := h.id.State(), h.last
	h.qp = h.id.QP() != nil
	moves, told, failed := h.moves, h.told, h.failed
	h.last, h.moves, h.told, h.failed = got, nil, 0, false
	ok := func(m modelMove) bool { return slices.Contains(stateOf[m.state], got) }
	newest := h.heard
	var top modelMove
	for _, m := range moves {
		if m.turn > newest {
			newest, top = m.turn, m
		}
	}
	fresh := newest > h.heard
	h.heard = newest
	switch {
	case got == StateFailed && (failed || was == got && h.m.state == modelRemoved): // the library finds the removal before it gets the event
		return nil
	case fresh && !ok(top) && !(len(moves) > 1 && slices.ContainsFunc(moves, ok)), !fresh && got != was && !slices.ContainsFunc(moves, ok):
		return fmt.Errorf("state of %v changed from %q to %q after %v, and the kernel's to %v", h.id, was, got, told, moves)
	case fresh && len(moves) == 1 && told != 0 && (top.state == modelEnded || top.state == modelRemoved) && got != endOf(was, told):
		return fmt.Errorf("state after %v in %q = %q, want %q", told, was, got, endOf(was, told))
	}
	return nil
}

// agree compares the library with the kernel when no event and no message is left.
func (r *modelRun) agree() error {
	for _, h := range r.handles {
		got, want := h.id.State(), stateOf[h.m.state]
		if h.m.uid == 0 && (h.m.state == modelEnded || h.m.state == modelRemoved) { // no event reports the end of a request
			want = []State{StateRequested, StateFailed}
		}
		if !slices.Contains(want, got) {
			return fmt.Errorf("state of %v = %q, and %d in the kernel", h.id, got, h.m.state)
		}
		if h.id.Channel() != h.ch.ch || h.m.file != h.ch.f {
			return fmt.Errorf("%v is not on the channel that it migrated to", h.id)
		}
		r.seen[fmt.Sprintf("%v, datagram %v", got, h.m.ud)]++
		if err := r.lookAtQP(h, got); err != nil {
			return err
		}
	}
	if got, want := r.attached(), r.joined(); got != want {
		return fmt.Errorf("QPs are attached to %d groups, want %d", got, want)
	}
	return nil
}

// lookAtQP checks the state of the QP of an ID. It skips the QP if h.left is set, because the
// user has ended the connection, or because the connection began without the QP.
func (r *modelRun) lookAtQP(h *modelHandle, state State) error {
	qp := h.id.QP()
	if qp == nil || h.left || h.m.state == modelRemoved {
		return nil
	}
	over := state == StateFailed || state == StateDisconnected
	switch s := qp.State(); {
	case h.m.ud && s != verbs.QPRTS, // the QP has other peers
		!h.m.ud && state == StateEstablished && s != verbs.QPRTS,
		!h.m.ud && over != (s == verbs.QPErr):
		return fmt.Errorf("%v is %q with its QP in %v", h.id, state, s)
	}
	return nil
}
