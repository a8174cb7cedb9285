// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/internal/vmtest"
	"purerdma/ucma"
	"purerdma/verbs"
)

// stateOf has, by the state of the kernel, what the library's may be when nothing is
// under way and every event has been fetched.
var stateOf = map[modelState][]State{
	modelIdle:          {StateIdle},
	modelBound:         {StateBound},
	modelAddrResolved:  {StateAddrResolved},
	modelRouteResolved: {StateRouteResolved},
	modelReqSent:       {StateConnecting},
	modelReqRcvd:       {StateRequested},
	modelRepSent:       {StateAccepting},
	modelRepRcvd:       {StateResponded},
	modelEstablished:   {StateEstablished},
	modelEnded:         {StateFailed, StateDisconnected},
	modelListening:     {StateListening},
}

// modelRun is a user who does anything at any time.
type modelRun struct {
	k    *modelKernel
	ch   *EventChannel
	rnd  *rand.Rand
	ids  []*ID
	left map[*ID]bool // the QP is the user's affair: he has ended the connection, or it began without
	log  []string
}

type userCall struct {
	name string
	call func(*modelRun, *ID) error
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
	{"Bind", func(_ *modelRun, id *ID) error { return id.Bind(mustAddr("10.8.0.1:7")) }},
	{"Listen", func(_ *modelRun, id *ID) error { return id.Listen(0) }},
	{"ResolveAddr", func(_ *modelRun, id *ID) error { return id.ResolveAddr(Addr{}, mustAddr("10.8.0.2:8"), time.Second) }},
	{"ResolveRoute", func(_ *modelRun, id *ID) error { return id.ResolveRoute(time.Second) }},
	{"Connect", func(_ *modelRun, id *ID) error { return id.Connect(&ConnParam{QPNum: 1}) }},
	{"Accept", func(_ *modelRun, id *ID) error { return id.Accept(&ConnParam{QPNum: 1}) }},
	{"Establish", func(_ *modelRun, id *ID) error { return id.Establish() }},
	{"CreateQP", func(r *modelRun, id *ID) error {
		late := slices.Contains([]State{StateResponded, StateAccepting, StateEstablished, StateDisconnected, StateFailed}, id.State())
		err := id.CreateQP(nil, verbs.QPConfig{})
		r.left[id] = r.left[id] || late && err == nil // the connection has none
		return err
	}},
	{"Reject", func(r *modelRun, id *ID) error {
		err := id.Reject(nil)
		r.left[id] = r.left[id] || err == nil
		return err
	}},
	{"Disconnect", func(r *modelRun, id *ID) error { r.left[id] = true; return id.Disconnect() }},
}

// TestModel has users do anything at any time with IDs on a kernel whose messages
// take any time, and some get lost. Whatever the order: an event comes to the ID that it is
// about, a call that fails says why, and when all is quiet the library and the
// kernel agree on each ID, and the QPs of the connections that stand, and of no
// others, are ready.
func TestModel(t *testing.T) {
	runs := 1000
	if testing.Short() || vmtest.Inside() { // it needs no kernel
		runs = 100
	}
	seen := map[State]int{}
	for seed := range runs {
		rnd := rand.New(rand.NewPCG(uint64(seed), 7))
		k := &modelKernel{rnd: rnd, ids: map[uint32]*modelID{}}
		r := &modelRun{k: k, ch: newEventChannel(ucma.New(k), fakeHost()), rnd: rnd, left: map[*ID]bool{}}
		err := r.run()
		for _, id := range r.ids {
			seen[id.State()]++
			id.Close()
		}
		r.ch.Close()
		if err == nil && len(k.ids) > 0 {
			err = fmt.Errorf("%d IDs are left", len(k.ids))
		}
		if err != nil {
			t.Fatalf("seed %d: %v, after %q", seed, err, r.log)
		}
	}
	// It must get somewhere, or it shows nothing.
	for _, s := range []State{StateListening, StateConnecting, StateRequested, StateAccepting, StateResponded, StateEstablished, StateDisconnected, StateFailed} {
		if seen[s] == 0 {
			t.Errorf("no run has ended with an ID that is %v", s)
		}
	}
}

func (r *modelRun) run() error {
	for range 300 {
		var err error
		switch n := r.rnd.IntN(20); {
		case n < 2 && len(r.ids) < 10:
			err = r.make()
		case n < 8:
			err = r.call()
		case n < 9 && len(r.ids) > 4:
			i := r.rnd.IntN(len(r.ids))
			r.log = append(r.log, fmt.Sprint("Close ", r.ids[i].kid))
			err = r.ids[i].Close()
			r.ids = slices.Delete(r.ids, i, i+1)
		case n < 14 && len(r.k.net) > 0:
			r.k.step()
		default:
			err = r.fetch()
		}
		if err != nil {
			return err
		}
	}
	for len(r.k.net)+len(r.k.events) > 0 {
		if len(r.k.net) > 0 {
			r.k.step()
		}
		if err := r.fetch(); err != nil {
			return err
		}
	}
	return r.agree()
}

func (r *modelRun) make() error {
	id, err := r.ch.NewID(PortSpaceTCP)
	if err != nil {
		return err
	}
	r.ids = append(r.ids, id)
	// Most go some way, so that there is something to see.
	switch r.rnd.IntN(4) {
	case 0:
		return errors.Join(id.Bind(mustAddr("10.8.0.1:7")), id.Listen(0))
	case 1, 2:
		return id.ResolveAddr(Addr{}, mustAddr("10.8.0.2:8"), time.Second)
	}
	return nil
}

// call makes one call, half of the time one that leads on.
func (r *modelRun) call() error {
	if len(r.ids) == 0 {
		return nil
	}
	id := r.ids[r.rnd.IntN(len(r.ids))]
	was := id.State()
	c := calls[r.rnd.IntN(len(calls))]
	if next := forward[was]; next != "" && r.rnd.IntN(2) == 0 {
		c = calls[slices.IndexFunc(calls, func(c userCall) bool { return c.name == next })]
	}
	err := c.call(r, id)
	r.log = append(r.log, fmt.Sprintf("%s %d: %v", c.name, id.kid, err))
	var se *StateError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &se) && se.State != was:
		return fmt.Errorf("%s in %q: %w", c.name, was, err)
	case !errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("%s in %q: %w", c.name, was, err)
	}
	return nil
}

// fetch takes an event, if there is one.
func (r *modelRun) fetch() error {
	queue := slices.Clone(r.k.events)
	ev, err := r.ch.Next(context.Background())
	if errors.Is(err, context.Canceled) {
		return nil // there is none, or of IDs alone that are closed
	}
	if err != nil {
		return err
	}
	r.log = append(r.log, ev.String())
	defer ev.Ack()
	raw := queue[len(queue)-len(r.k.events)-1]
	if ev.ID.kid != raw.ID && raw.Event != abi.RDMA_CM_EVENT_CONNECT_RESPONSE || ev.ID.uid != raw.UID && ev.Listener == nil {
		return fmt.Errorf("an event of ID %d came as %v", raw.ID, ev)
	}
	if ev.Type == EventConnectRequest {
		r.ids = append(r.ids, ev.ID)
	} else if !slices.Contains(r.ids, ev.ID) {
		return fmt.Errorf("%v is of an ID that is closed", ev)
	}
	_ = ev.Err()
	return nil
}

// agree compares the library with the kernel.
func (r *modelRun) agree() error {
	for _, id := range r.ids {
		m, got := r.k.ids[id.kid], id.State()
		want := stateOf[m.state]
		if m.uid == 0 && m.state == modelEnded { // a request whose end nobody is told
			want = append(slices.Clone(want), StateRequested)
		}
		if !slices.Contains(want, got) {
			return fmt.Errorf("%v is %q, and in the kernel in state %d", id, got, m.state)
		}
		qp := id.QP()
		if qp == nil || r.left[id] {
			continue
		}
		switch s := qp.State(); {
		case got == StateEstablished && s != verbs.QPRTS,
			(got == StateFailed || got == StateDisconnected) && s != verbs.QPErr,
			s == verbs.QPErr && got != StateFailed && got != StateDisconnected:
			return fmt.Errorf("%v is %q, and its QP in %v", id, got, s)
		}
	}
	return nil
}
