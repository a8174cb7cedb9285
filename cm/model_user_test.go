// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"testing/synctest"
	"time"

	"purerdma/verbs"
)

type userCall struct {
	name string
	call func(*modelRun, *modelHandle) error
}

// forward names the call that leads to the next state.
var forward = map[State]string{
	StateAddrResolved:  "ResolveRoute",
	StateRouteResolved: "Connect",
	StateRequested:     "Accept",
	StateResponded:     "Establish",
}

// calls lists the user's calls on an ID.
var calls = []userCall{
	{"Bind", func(r *modelRun, h *modelHandle) error { return h.id.Bind(modelAddrs[r.rnd.IntN(3)]) }},
	{"Listen", func(_ *modelRun, h *modelHandle) error { return h.id.Listen(0) }},
	{"ResolveAddr", func(_ *modelRun, h *modelHandle) error {
		return h.id.ResolveAddr(Addr{}, mustAddr("10.8.0.2:8"), time.Second)
	}},
	{"ResolveRoute", func(_ *modelRun, h *modelHandle) error { return h.id.ResolveRoute(time.Second) }},
	{"Connect", func(_ *modelRun, h *modelHandle) error { return h.id.Connect(&ConnParam{QPNum: 1}) }},
	{"Accept", func(_ *modelRun, h *modelHandle) error { return h.id.Accept(&ConnParam{QPNum: 1}) }},
	{"Establish", func(_ *modelRun, h *modelHandle) error { return h.id.Establish() }},
	{"Notify", func(_ *modelRun, h *modelHandle) error { return h.id.Notify(CommEst) }},
	{"InitQPAttr", func(_ *modelRun, h *modelHandle) error { _, _, err := h.id.InitQPAttr(verbs.QPRTR); return err }},
	{"CreateQP", func(r *modelRun, h *modelHandle) error {
		late := []State{StateResponded, StateAccepting, StateEstablished, StateDisconnected, StateFailed}
		begun := slices.Contains(late, h.id.State())
		err := h.id.CreateQP(nil, verbs.QPConfig{})
		begun = begun || slices.Contains(late, h.id.State())
		h.left = h.left || !h.m.ud && err == nil && begun // the connection has no QP
		return err
	}},
	{"Reject", func(r *modelRun, h *modelHandle) error {
		err := h.id.Reject(nil)
		h.left = h.left || !h.m.ud && err == nil
		return err
	}},
	{"Disconnect", func(_ *modelRun, h *modelHandle) error {
		h.left = h.left || !h.m.ud
		return h.id.Disconnect()
	}},
	{"Join", (*modelRun).join},
}

// make creates an ID.
func (r *modelRun) make() error {
	c := r.chans[r.rnd.IntN(len(r.chans))]
	ps := PortSpaceTCP
	if r.rnd.IntN(5) < 2 {
		ps = PortSpaceUDP
	}
	id, err := c.ch.NewID(IDConfig{PortSpace: ps})
	if err != nil {
		return err
	}
	h := r.own(id, r.k.ids[id.kid], c)
	// Most IDs take some steps, so that more situations are reached.
	switch r.rnd.IntN(5) {
	case 0, 1:
		err = id.Bind(modelAddrs[r.rnd.IntN(3)])
		if err == nil && r.rnd.IntN(3) > 0 {
			err = id.Listen(0)
		}
	case 2, 3:
		err = id.ResolveAddr(Addr{}, mustAddr("10.8.0.2:8"), time.Second)
	}
	r.note("make %v, datagram %v, on channel %d: %q, %v", id, h.m.ud, c.f.fd, id.State(), err)
	if err != nil && !errors.Is(err, syscall.ENODEV) {
		return err
	}
	return nil
}

// own records an ID that belongs to the user from now on.
func (r *modelRun) own(id *ID, m *modelID, c *modelChannel) *modelHandle {
	h := &modelHandle{id: id, m: m, ch: c, last: id.State()}
	r.handles = append(r.handles, h)
	r.of[id], r.by[m] = h, h
	return h
}

// call makes one call, in most cases a call that leads to the next state.
func (r *modelRun) call() error {
	if len(r.handles) == 0 {
		return nil
	}
	h := r.pick()
	was := h.id.State()
	c := calls[r.rnd.IntN(len(calls))]
	next := forward[was]
	if h.m.ud && (was == StateBound || was == StateAddrResolved) && r.rnd.IntN(2) == 0 {
		next = []string{"Join", "CreateQP"}[r.rnd.IntN(2)]
	}
	if next != "" && r.rnd.IntN(3) > 0 {
		c = calls[slices.IndexFunc(calls, func(c userCall) bool { return c.name == next })]
	}
	turn, groups, commands := h.m.turn, len(r.k.groups), r.k.commands
	r.k.refused = nil
	h.failed = false
	r.interrupt(h)
	err := c.call(r, h)
	r.k.during = nil
	during := ""
	if r.interrupted {
		during = ", interrupted"
	}
	r.note("%s %v in %q: %v%s", c.name, h.id, was, err, during)
	switch {
	case was == StateRemoved && (err == nil || r.k.commands != commands):
		return fmt.Errorf("%s on a removed device has sent a command, and returned %v", c.name, err)
	case err == nil:
		return nil
	}
	h.failed = h.failed || r.refuses(h, c)
	if err := r.judge(h, c.name, was, err); err != nil {
		return err
	}
	if r.interrupted {
		r.seen["failing call is interrupted"]++
		return nil
	}
	if h.m.turn != turn && !h.failed || len(r.k.groups) != groups {
		return fmt.Errorf("%s in %q failed, but changed the kernel's state: %w", c.name, was, err)
	}
	return nil
}

// judge checks the error of a call.
func (r *modelRun) judge(h *modelHandle, name string, was State, err error) error {
	wrong := func(why string) error { return fmt.Errorf("%s of %v in %q: %s: %w", name, h.id, was, why, err) }
	var oe *OpError
	var se *StateError
	var removed *verbs.DeviceRemovedError
	gone, said := errors.As(err, &removed), r.refusals(h)
	switch {
	case !errors.As(err, &oe):
		return wrong("no OpError")
	case was == StateRemoved && !gone:
		return wrong("the error is no DeviceRemovedError")
	case slices.Contains(said, error(syscall.ENXIO)) && !gone && !r.interrupted:
		return wrong("the kernel returned ENXIO, and the error is no DeviceRemovedError")
	case gone && h.m.state != modelRemoved:
		return wrong("the error is a DeviceRemovedError, and the device is present")
	case gone:
		r.seen["call on a removed device"]++
		return nil
	case errors.As(err, &se) && se.State != was && !r.interrupted:
		return wrong("the StateError names another state")
	case errors.As(err, &se) && (slices.Contains(se.Want, se.State) || len(se.Want) == 0):
		return wrong("the StateError names the state as a possible one")
	}
	for _, errno := range append(said, syscall.EINVAL) {
		if errors.Is(err, errno) {
			return nil
		}
	}
	return wrong("the kernel returned another error")
}

// refuses reports whether a failed call may have rejected the peer.
func (r *modelRun) refuses(h *modelHandle, c userCall) bool {
	return c.name == "Accept" && (len(r.refusals(h)) > 0 || h.m.state == modelRemoved || h.left)
}

// refusals returns the errors of the commands on an ID during the last call.
func (r *modelRun) refusals(h *modelHandle) (errs []error) {
	for _, no := range r.k.refused {
		if no.id == h.m {
			errs = append(errs, no.err)
		}
	}
	return errs
}

// interrupt prepares other actions during the next call on h, in half of the cases. Pending
// messages arrive, waiting goroutines get events, and in some cases another call is made.
func (r *modelRun) interrupt(h *modelHandle) {
	r.interrupted = false
	if r.rnd.IntN(2) == 0 {
		return
	}
	r.k.surprise = nil // a migrating ID would wait for its commands
	n := r.rnd.IntN(4) // the number of pauses before the interruption
	r.k.during = func() {
		if n--; n >= 0 {
			return
		}
		r.k.during = nil
		r.interrupted = true
		for range 1 + r.rnd.IntN(4) {
			r.k.step()
		}
		for _, c := range r.chans {
			r.fetch(c, true)
		}
		synctest.Wait()
		if c := calls[r.rnd.IntN(len(calls))]; c.name != "Join" && c.name != "CreateQP" && r.rnd.IntN(2) == 0 { // these calls would wait for each other
			err := c.call(r, h)
			h.failed = h.failed || err != nil && r.refuses(h, c)
			r.note("during the call: %s %v: %v", c.name, h.id, err)
			if err == nil {
				r.seen["call succeeds during another call"]++
			}
		}
	}
}

// migrate moves an ID to another channel, or to its own.
func (r *modelRun) migrate() error {
	if len(r.handles) == 0 {
		return nil
	}
	return r.move(r.pick(), r.chans[r.rnd.IntN(len(r.chans))])
}

func (r *modelRun) move(h *modelHandle, c *modelChannel) error {
	pending := 0
	for _, ev := range h.m.file.events {
		if ev.move.id == h.m && ev.child != nil {
			return nil // the kernel does not move the new IDs
		}
		if ev.move.id == h.m {
			pending++
		}
	}
	was, removed := h.id.State(), h.m.state == modelRemoved
	r.k.refused, r.interrupted = nil, false
	err := h.id.Migrate(c.ch)
	r.note("Migrate %v to channel %d: %v", h.id, c.f.fd, err)
	switch {
	case removed && h.ch != c && err == nil:
		return fmt.Errorf("Migrate of %v on a removed device = nil, want an error", h.id)
	case removed && h.ch != c:
		return r.judge(h, "Migrate", was, err)
	case err != nil:
		return err
	}
	if h.ch != c && pending > 0 {
		r.seen["ID migrates with events"]++
		if c.cancel != nil {
			r.seen["ID migrates with events to a waiting goroutine"]++
		}
	}
	h.ch = c
	return nil
}

// surprise prepares an action between the next fetch of an event and its handling. The event's
// ID migrates or closes, or its membership ends.
func (r *modelRun) surprise() {
	what, c := r.rnd.IntN(3), r.chans[r.rnd.IntN(len(r.chans))]
	r.k.surprise = func(ev modelEvent) {
		goOn := make(chan struct{})
		r.surprised <- func() error {
			defer close(goOn)
			h := r.by[ev.move.id]
			switch {
			case h.gone:
			case what == 0 && ev.group != nil && r.members[ev.group] != nil:
				return r.leaveMember(r.members[ev.group])
			case what == 1:
				r.note("Close %v before its event is handled", h.id)
				r.forget(h)
				return h.id.Close()
			case what == 2 && h.m.state != modelRemoved && !c.gone:
				r.seen["ID migrates before its event is handled"]++
				return r.move(h, c)
			}
			return nil
		}
		<-goOn
	}
}

// quiesce waits until all goroutines are blocked, and executes the prepared actions on the way.
func (r *modelRun) quiesce() (err error) {
	for {
		synctest.Wait()
		select {
		case what := <-r.surprised:
			err = errors.Join(err, what())
		default:
			return err
		}
	}
}

// close ends an ID in one of three ways.
func (r *modelRun) close(h *modelHandle) error {
	how := r.rnd.IntN(3)
	r.note("end %v in way %d, %d unacknowledged events", h.id, how, h.held)
	r.forget(h)
	start := time.Now()
	switch {
	case how == 0:
		if err := h.id.Close(); err != nil {
			return err
		}
		if h.held > 0 {
			r.seen["Close with unacknowledged events"]++
		}
	default:
		if err := r.destroy(h, how == 1); err != nil {
			return err
		}
	}
	if time.Since(start) != 0 {
		return fmt.Errorf("closing %v has waited", h.id)
	}
	if !h.m.gone {
		return fmt.Errorf("%v is closed, but not destroyed in the kernel", h.id)
	}
	return nil
}

// forget removes an ID from the user's IDs.
func (r *modelRun) forget(h *modelHandle) {
	h.gone = true
	r.handles = slices.DeleteFunc(r.handles, func(o *modelHandle) bool { return o == h })
	r.closed = append(r.closed, h)
}

// callClosed makes a call on a closed ID, and checks that it sends no command. Another ID may
// have its number now.
func (r *modelRun) callClosed() error {
	if len(r.closed) == 0 {
		return nil
	}
	h := r.closed[r.rnd.IntN(len(r.closed))]
	c := calls[r.rnd.IntN(len(calls))]
	before := r.k.commands
	err := c.call(r, h)
	if errors.Join(h.id.Close(), h.id.Migrate(r.chans[0].ch)) == nil || !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("%s of a closed ID = %w, want net.ErrClosed", c.name, err)
	}
	if r.k.commands != before {
		return fmt.Errorf("%s of a closed ID has sent a command", c.name)
	}
	return nil
}
