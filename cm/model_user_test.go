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

// forward is the call that leads on from a state.
var forward = map[State]string{
	StateAddrResolved:  "ResolveRoute",
	StateRouteResolved: "Connect",
	StateRequested:     "Accept",
	StateResponded:     "Establish",
}

// calls are what the user may do to an ID.
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
		h.left = h.left || !h.m.ud && err == nil && begun // the connection has none
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

// make makes an ID.
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
	// Most go some way, so that there is something to see.
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

// own notes an ID that is the user's from now on.
func (r *modelRun) own(id *ID, m *modelID, c *modelChannel) *modelHandle {
	h := &modelHandle{id: id, m: m, ch: c, last: id.State()}
	r.handles = append(r.handles, h)
	r.of[id], r.by[m] = h, h
	return h
}

// call makes one call, most of the time one that leads on.
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
		return fmt.Errorf("%s of an ID whose device is gone has come to the kernel: %v", c.name, err)
	case err == nil:
		return nil
	}
	h.failed = h.failed || r.refuses(h, c)
	if err := r.judge(h, c.name, was, err); err != nil {
		return err
	}
	if r.interrupted {
		r.seen["a call that fails is interrupted"]++
		return nil
	}
	if h.m.turn != turn && !h.failed || len(r.k.groups) != groups {
		return fmt.Errorf("%s in %q has failed, and the kernel has done something: %w", c.name, was, err)
	}
	return nil
}

// judge is whether an error is the right one.
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
		return wrong("the device is gone")
	case slices.Contains(said, error(syscall.ENXIO)) && !gone && !r.interrupted:
		return wrong("the kernel has said that the device is gone")
	case gone && h.m.state != modelRemoved:
		return wrong("the device is there")
	case gone:
		r.seen["a call on a device that is gone"]++
		return nil
	case errors.As(err, &se) && se.State != was && !r.interrupted:
		return wrong("another state")
	case errors.As(err, &se) && (slices.Contains(se.Want, se.State) || len(se.Want) == 0):
		return wrong("the state is one of those that it should be in")
	}
	for _, errno := range append(said, syscall.EINVAL) {
		if errors.Is(err, errno) {
			return nil
		}
	}
	return wrong("the kernel has said something else")
}

// refuses is whether a call that has failed may have refused the peer.
func (r *modelRun) refuses(h *modelHandle, c userCall) bool {
	return c.name == "Accept" && (len(r.refusals(h)) > 0 || h.m.state == modelRemoved || h.left)
}

// refusals are what the kernel has said to commands on an ID during the last call.
func (r *modelRun) refusals(h *modelHandle) (errs []error) {
	for _, no := range r.k.refused {
		if no.id == h.m {
			errs = append(errs, no.err)
		}
	}
	return errs
}

// interrupt has something happen during the call on h that comes, half of the time: what
// is under way arrives, and who waits for events gets them, and now and then there is
// another call.
func (r *modelRun) interrupt(h *modelHandle) {
	r.interrupted = false
	if r.rnd.IntN(2) == 0 {
		return
	}
	r.k.surprise = nil // who moves an ID waits for its commands
	n := r.rnd.IntN(4) // times that the call passes by before
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
		if c := calls[r.rnd.IntN(len(calls))]; c.name != "Join" && c.name != "CreateQP" && r.rnd.IntN(2) == 0 { // who waits for each other
			err := c.call(r, h)
			h.failed = h.failed || err != nil && r.refuses(h, c)
			r.note("meanwhile %s %v: %v", c.name, h.id, err)
			if err == nil {
				r.seen["a call succeeds during another"]++
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
			return nil // the kernel leaves the new IDs behind
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
		return fmt.Errorf("%v has moved, and its device is gone", h.id)
	case removed && h.ch != c:
		return r.judge(h, "Migrate", was, err)
	case err != nil:
		return err
	}
	if h.ch != c && pending > 0 {
		r.seen["an ID moves with events"]++
		if c.cancel != nil {
			r.seen["an ID moves with events to who waits"]++
		}
	}
	h.ch = c
	return nil
}

// surprise has the ID of the event that is fetched next move, or end, before the
// library looks at the event; or its membership.
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
				r.note("Close %v, whose event is on its way", h.id)
				r.forget(h)
				return h.id.Close()
			case what == 2 && h.m.state != modelRemoved && !c.gone:
				r.seen["an ID moves away from its event"]++
				return r.move(h, c)
			}
			return nil
		}
		<-goOn
	}
}

// calm waits until nobody can go on, whoever is surprised on the way.
func (r *modelRun) calm() (err error) {
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

// close ends an ID, in one of three ways.
func (r *modelRun) close(h *modelHandle) error {
	how := r.rnd.IntN(3)
	r.note("end %v in way %d, %d events held", h.id, how, h.held)
	r.forget(h)
	start := time.Now()
	switch {
	case how == 0:
		if err := h.id.Close(); err != nil {
			return err
		}
		if h.held > 0 {
			r.seen["Close with events held"]++
		}
	default:
		if err := r.destroy(h, how == 1); err != nil {
			return err
		}
	}
	if time.Since(start) != 0 {
		return fmt.Errorf("the end of %v has taken time", h.id)
	}
	if !h.m.gone {
		return fmt.Errorf("%v is closed, and not destroyed", h.id)
	}
	return nil
}

// forget notes that the user has no ID any more.
func (r *modelRun) forget(h *modelHandle) {
	h.gone = true
	r.handles = slices.DeleteFunc(r.handles, func(o *modelHandle) bool { return o == h })
	r.closed = append(r.closed, h)
}

// callClosed makes a call on an ID that is closed: no command goes to the ID that has
// its number now.
func (r *modelRun) callClosed() error {
	if len(r.closed) == 0 {
		return nil
	}
	h := r.closed[r.rnd.IntN(len(r.closed))]
	c := calls[r.rnd.IntN(len(calls))]
	before := r.k.commands
	err := c.call(r, h)
	if errors.Join(h.id.Close(), h.id.Migrate(r.chans[0].ch)) == nil || !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("%s of an ID that is closed: %w", c.name, err)
	}
	if r.k.commands != before {
		return fmt.Errorf("%s of an ID that is closed has come to the kernel", c.name)
	}
	return nil
}
