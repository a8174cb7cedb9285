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
	modelRuns = flags.Int("model.runs", 0, "runs of TestModel; 0 is a short while of them")
	modelSeed = flags.Uint64("model.seed", 0, "seed of the first run of TestModel")
)

// TestModel has users do anything at any time with IDs of connections and of datagrams,
// on a kernel whose messages take any time, whose devices go, and which loses some
// messages. Events come while calls run, and IDs move and end while events are looked at.
// Whatever the order: an event comes once, to the ID that it is about; the ID is then in
// the state that it means; a call that fails says why, and leaves nothing; Destroy waits
// for acknowledgements and Close does not. When all is quiet the library and the kernel
// agree on each ID, and the QPs of the connections that stand, and of no others, are
// ready. At the end nothing is left, no goroutine either.
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
	// It must get everywhere, or it shows nothing.
	for _, what := range modelPlaces {
		if seen[what] == 0 {
			t.Errorf("no run has come to: %s", what)
		}
	}
}

// runModel is one run. The devices are opened outside, because their goroutines wait
// for descriptors, not for each other.
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
		if p := recover(); p != nil { // that nobody can go on is one
			err = fmt.Errorf("%v", p)
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
		err = fmt.Errorf("%d contexts are open", qps.Opened())
	}
	return err
}

// modelRun is a user who does anything at any time, one thing after the other.
type modelRun struct {
	k    *modelKernel
	qps  *groupKernel
	host *verbs.Host
	rnd  *rand.Rand

	chans   []*modelChannel
	handles []*modelHandle // that are open
	closed  []*modelHandle
	of      map[*ID]*modelHandle
	by      map[*modelID]*modelHandle
	members map[*modelGroup]*modelMember
	held    []*modelHeld
	waits   []*modelWait

	surprised   chan func() error
	interrupted bool // something has happened during the last call
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
		if err := r.settle(); err != nil {
			return err
		}
	}
	for r.busy() {
		r.k.step()
		for _, c := range r.chans {
			r.fetch(c, true)
		}
		if err := r.settle(); err != nil {
			return err
		}
	}
	return r.agree()
}

// busy says whether something is under way, or was not fetched.
func (r *modelRun) busy() bool {
	return len(r.k.net) > 0 || slices.ContainsFunc(r.k.files, func(f *modelFile) bool { return len(f.events) > 0 })
}

// act does one thing.
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

// unplug takes a device away, one that somebody asks for a connection on, if there is one.
func (r *modelRun) unplug() {
	dev := r.rnd.IntN(len(r.k.unplug))
	for _, f := range r.k.files {
		for _, ev := range f.events {
			if ev.child != nil {
				dev = ev.child.dev
			}
		}
	}
	r.note("device %d goes", dev)
	r.k.remove(dev)
}

func (r *modelRun) pick() *modelHandle { return r.handles[r.rnd.IntN(len(r.handles))] }

// modelChannel is a channel, and who waits for its next event.
type modelChannel struct {
	ch      *EventChannel
	f       *modelFile
	cancel  context.CancelFunc // nil if nobody waits
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

// fetch has somebody fetch an event of a channel: who waits may be one who has waited
// before, and may give up.
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

// reopen closes a channel, with all that is on it, and opens another one.
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
		return fmt.Errorf("closing a channel: %w", err)
	}
	if err := errors.Join(r.calm(), r.account(c)); err != nil {
		return err
	}
	if c.cancel != nil {
		return errors.New("who waits on a closed channel waits on")
	}
	if _, err := c.ch.Next(context.Background()); !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("Next of a closed channel: %w", err)
	}
	return nil
}

// finish ends everything, and looks for what is left.
func (r *modelRun) finish() error {
	for len(r.held) > 0 {
		r.ack()
	}
	for len(r.handles) > 0 {
		if err := r.close(r.handles[0]); err != nil {
			return err
		}
	}
	if err := r.settle(); err != nil {
		return err
	}
	if len(r.waits) > 0 {
		return fmt.Errorf("%d wait for acknowledgements at the end", len(r.waits))
	}
	for _, f := range r.k.files {
		if len(f.events) > 0 && !slices.ContainsFunc(f.events, func(ev modelEvent) bool { return ev.group != nil }) {
			return fmt.Errorf("%d events are left", len(f.events))
		}
	}
	if len(r.k.ids)+len(r.k.groups) > 0 {
		return fmt.Errorf("%d IDs and %d memberships are left", len(r.k.ids), len(r.k.groups))
	}
	if n := r.attached(); n != 0 {
		return fmt.Errorf("QPs are in %d groups at the end", n)
	}
	for _, c := range r.chans {
		if len(c.ch.ids) > 0 {
			return fmt.Errorf("a channel knows %d IDs at the end", len(c.ch.ids))
		}
		if err := r.closeChannel(c); err != nil {
			return err
		}
	}
	return nil
}

// abandon lets go of everything after an error.
func (r *modelRun) abandon() {
	for _, w := range r.waits {
		w.cancel()
	}
	for _, c := range r.chans {
		c.ch.Close()
	}
}
