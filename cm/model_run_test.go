// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"errors"
	flags "flag" // package cm has a function of that name
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/ucma"
	"purerdma/verbs"
)

var (
	modelRuns = flags.Int("model.runs", 0, "runs of TestModel, 0 for a short test")
	modelSeed = flags.Uint64("model.seed", 0, "seed of the first run of TestModel")
)

// TestModel simulates users who do anything at any time with IDs of connections and of
// datagrams. The kernel delays or loses messages, and its devices are removed. Events come
// while calls run. IDs migrate and close while their events are handled. The following must
// hold in any order of these actions.
//
// An event is delivered once, to its ID. The ID is then in the state of the event. A failed
// call returns the reason, and has no effect. Destroy waits for acknowledgements, and Close
// does not. When no event and no message is left, the library and the kernel agree on the
// state of each ID, and exactly the QPs of the established connections are ready. At the end
// no object and no goroutine is left.
func TestModel(t *testing.T) {
	runs := *modelRuns
	switch {
	case runs != 0:
	case vmtest.Inside(): // it needs no kernel
		runs = 100
	case longtest.Enabled():
		runs = 1000
	default:
		runs = 200
	}
	seen := map[string]int{}
	for seed := *modelSeed; seed < *modelSeed+uint64(runs); seed++ {
		if err := runModel(t, seed, seen); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%6d %s", seen[what], what)
	}
	if *modelRuns != 0 || runs < 1000 {
		return
	}
	// The runs must reach every situation. Otherwise the test checks too little.
	for _, what := range modelPlaces {
		if seen[what] == 0 {
			t.Errorf("no run has reached: %s", what)
		}
	}
}

// runModel executes one run. It opens the devices outside of the bubble, because their
// goroutines wait for descriptors, and not for each other.
func runModel(t *testing.T, seed uint64, seen map[string]int) (err error) {
	qps := newGroupKernel("rxe0", "rxe1")
	host := &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: qps}
	var devs []*verbs.Device
	for _, name := range []string{"rxe0", "rxe1"} {
		dev, err := host.Open(name)
		if err != nil {
			return err
		}
		devs = append(devs, dev)
	}
	rnd := rand.New(rand.NewPCG(seed, 7))
	r := &modelRun{
		k: newModelKernel(rnd), qps: qps, host: host, rnd: rnd, seen: seen,
		of: map[*ID]*modelHandle{}, by: map[*modelID]*modelHandle{}, members: map[*modelGroup]*modelMember{},
	}
	defer func() {
		if p := recover(); p != nil { // a deadlock also panics
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil {
			err = fmt.Errorf("%w, after\n%s", err, strings.Join(r.log[max(0, len(r.log)-50):], "\n"))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		if err = r.run(); err == nil {
			err = r.finish()
		}
		if err != nil {
			r.abandon()
		}
	})
	for _, dev := range devs {
		dev.Close()
	}
	if err == nil && qps.Opened() != 0 {
		err = fmt.Errorf("%d contexts are open, want 0", qps.Opened())
	}
	return err
}

// modelRun is a user who takes one random action after another.
type modelRun struct {
	k    *modelKernel
	qps  *groupKernel
	host *verbs.Host
	rnd  *rand.Rand

	chans   []*modelChannel
	handles []*modelHandle // the open ones
	closed  []*modelHandle
	of      map[*ID]*modelHandle
	by      map[*modelID]*modelHandle
	members map[*modelGroup]*modelMember
	held    []*modelHeld
	waits   []*modelWait

	surprised   chan func() error
	interrupted bool // another action has happened during the last call
	log         []string
	seen        map[string]int
}

func (r *modelRun) note(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func (r *modelRun) run() error {
	r.surprised = make(chan func() error, 1)
	for range 3 {
		r.open()
	}
	for range 300 {
		if err := r.act(); err != nil {
			return err
		}
		if err := r.quiesceAndCheck(); err != nil {
			return err
		}
	}
	for r.busy() {
		r.k.step()
		for _, c := range r.chans {
			r.fetch(c, true)
		}
		if err := r.quiesceAndCheck(); err != nil {
			return err
		}
	}
	return r.agree()
}

// busy reports whether messages are pending or events are unfetched.
func (r *modelRun) busy() bool {
	return len(r.k.net) > 0 || slices.ContainsFunc(r.k.files, func(f *modelFile) bool { return len(f.events) > 0 })
}

// act takes one action.
func (r *modelRun) act() error {
	switch n := r.rnd.IntN(100); {
	case n < 9 && len(r.handles) < 10:
		return r.make()
	case n < 35:
		return r.call()
	case n < 40:
		return r.migrate()
	case n < 44 && len(r.handles) > 4:
		return r.close(r.pick())
	case n < 46:
		return r.callClosed()
	case n < 48:
		return r.leave()
	case n < 53:
		r.ack()
	case n < 54:
		r.stopWaiting()
	case n < 56 && len(r.handles) > 0:
		r.k.hint(r.pick().m)
	case n < 57 && r.rnd.IntN(4) == 0:
		return r.reopen()
	case n < 58 && r.rnd.IntN(3) == 0:
		r.unplug()
	case n < 78:
		r.k.step()
	default:
		c := r.chans[r.rnd.IntN(len(r.chans))]
		if r.rnd.IntN(8) == 0 {
			r.surprise()
		}
		r.fetch(c, r.rnd.IntN(3) > 0)
	}
	return nil
}

// unplug removes a device. If there is an unfetched connect request, it removes the device of
// the request.
func (r *modelRun) unplug() {
	dev := r.rnd.IntN(len(r.k.unplug))
	for _, f := range r.k.files {
		for _, ev := range f.events {
			if ev.child != nil {
				dev = ev.child.dev
			}
		}
	}
	r.note("remove device %d", dev)
	r.k.remove(dev)
}

func (r *modelRun) pick() *modelHandle { return r.handles[r.rnd.IntN(len(r.handles))] }

// modelChannel is a channel with the goroutine that waits for its next event.
type modelChannel struct {
	ch      *EventChannel
	f       *modelFile
	cancel  context.CancelFunc // nil if no goroutine waits
	gone    bool               // closed
	results chan modelResult
	dropped uint64
}

type modelResult struct {
	ev  *Event
	err error
}

func (r *modelRun) open() *modelChannel {
	f := r.k.open()
	c := &modelChannel{ch: newEventChannel(ucma.New(f), r.host), f: f, results: make(chan modelResult, 1)}
	r.chans = append(r.chans, c)
	return c
}

// fetch starts a goroutine that fetches an event of a channel. If a goroutine already waits,
// it fetches the event. Without wait, it is cancelled.
func (r *modelRun) fetch(c *modelChannel, wait bool) {
	if c.cancel != nil {
		if !wait {
			c.cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	if c.cancel = cancel; !wait {
		cancel()
	}
	go func() {
		ev, err := c.ch.Next(ctx)
		c.results <- modelResult{ev, err}
	}()
}

// reopen closes a channel with its IDs, and opens another one.
func (r *modelRun) reopen() error {
	i := r.rnd.IntN(len(r.chans))
	c := r.chans[i]
	r.note("close channel %d", c.f.fd)
	for _, h := range slices.Clone(r.handles) {
		if h.ch == c {
			r.forget(h)
		}
	}
	if err := r.closeChannel(c); err != nil {
		return err
	}
	r.chans = slices.Delete(r.chans, i, i+1)
	r.open()
	return nil
}

func (r *modelRun) closeChannel(c *modelChannel) error {
	c.gone = true
	if err := c.ch.Close(); err != nil {
		return fmt.Errorf("Close of a channel: %w", err)
	}
	if err := errors.Join(r.quiesce(), r.account(c)); err != nil {
		return err
	}
	if c.cancel != nil {
		return errors.New("Next still waits after the Close of its channel")
	}
	if _, err := c.ch.Next(context.Background()); !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("Next of a closed channel = %w, want net.ErrClosed", err)
	}
	return nil
}

// finish closes everything, and checks that nothing is left.
func (r *modelRun) finish() error {
	for len(r.held) > 0 {
		r.ack()
	}
	for len(r.handles) > 0 {
		if err := r.close(r.handles[0]); err != nil {
			return err
		}
	}
	if err := r.quiesceAndCheck(); err != nil {
		return err
	}
	if len(r.waits) > 0 {
		return fmt.Errorf("%d calls wait for acknowledgements at the end, want 0", len(r.waits))
	}
	for _, f := range r.k.files {
		if len(f.events) > 0 && !slices.ContainsFunc(f.events, func(ev modelEvent) bool { return ev.group != nil }) {
			return fmt.Errorf("%d events are left, want 0", len(f.events))
		}
	}
	if len(r.k.ids)+len(r.k.groups) > 0 {
		return fmt.Errorf("%d IDs and %d memberships are left, want 0", len(r.k.ids), len(r.k.groups))
	}
	if n := r.attached(); n != 0 {
		return fmt.Errorf("QPs are attached to %d groups at the end, want 0", n)
	}
	for _, c := range r.chans {
		if len(c.ch.ids) > 0 {
			return fmt.Errorf("a channel has %d IDs at the end, want 0", len(c.ch.ids))
		}
		if err := r.closeChannel(c); err != nil {
			return err
		}
	}
	return nil
}

// abandon releases everything after an error.
func (r *modelRun) abandon() {
	for _, w := range r.waits {
		w.cancel()
	}
	for _, c := range r.chans {
		c.ch.Close()
	}
}
