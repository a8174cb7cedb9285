// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/cm"
)

// soak is a run.
type soak struct {
	seed     uint64
	protocol *protocol
	ctx      context.Context // ends when no more connections are to begin
	failed   context.Context // ends with the first fault
	fail     context.CancelCauseFunc
	faults   atomic.Int64
	patience time.Duration
	stats    stats
	spoil    spoil
	fake     bool // devices that are no kernel's

	removed     atomic.Pointer[chan struct{}] // of lives that begin now
	dialedLives sync.Map                      // lives of dialed connections by seed, until they are accepted
}

// stats counts events.
type stats struct {
	connections, bytes, expired, aborted, cancelled, kills, removals, stale, lost atomic.Int64
	// kinds counts the calls of each kind.
	kinds [callKinds]atomic.Int64
}

func (s *stats) String() string {
	return fmt.Sprintf("%d connections, %d MB, %d deadlines expired, %d connections aborted, %d dials cancelled, %d processes killed, %d devices removed, %d stale connections, %d ends lost by siw",
		s.connections.Load(), s.bytes.Load()>>20, s.expired.Load(), s.aborted.Load(), s.cancelled.Load(), s.kills.Load(), s.removals.Load(), s.stale.Load(), s.lost.Load())
}

// spoil contains corruptions for the test of the test. Each counter counts down the writes or messages before the
// corruption.
type spoil struct{ flip, end atomic.Int64 }

// bytes corrupts a byte.
func (s *spoil) bytes(p []byte) {
	if s.flip.Load() > 0 && s.flip.Add(-1) == 0 {
		p[len(p)-1] ^= 1
	}
}

// short reports whether the stream is to end early.
func (s *spoil) short() bool { return s.end.Load() > 0 && s.end.Add(-1) == 0 }

func newSoak(ctx context.Context, p *protocol, seed uint64) *soak {
	s := &soak{seed: seed, protocol: p, ctx: ctx, patience: time.Minute}
	s.failed, s.fail = context.WithCancelCause(context.Background())
	removed := make(chan struct{})
	s.removed.Store(&removed)
	return s
}

// shownFaults is the number of faults that are printed. The other side of a connection may have the cause.
const shownFaults = 10

// fault reports an error. The first one ends the run.
func (s *soak) fault(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	n := s.faults.Add(1)
	if n <= shownFaults {
		fmt.Fprintln(os.Stderr, "connections: fault:", err)
	}
	if n == 1 {
		s.fail(fmt.Errorf("seed %d: %w", s.seed, err))
	}
}

// err returns the first fault.
func (s *soak) err() error {
	if s.failed.Err() == nil {
		return nil
	}
	return context.Cause(s.failed)
}

// serve runs the accepting side of all connections of a listener, until the listener is closed and they have
// ended.
func (s *soak) serve(ln listener, peer *process) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		c, err := ln.accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.fault("Accept: %w", err)
			return
		}
		all.Go(func() { s.accepted(c, peer) })
	}
}

// accepted receives the seed of a connection. A connection without a seed belongs to a cancelled dial or to a killed
// process.
func (s *soak) accepted(c connection, peer *process) {
	seed, begun, err := c.receiveSeed(s.patience)
	if err != nil {
		if begun && !s.lifeWith(peer).over() {
			s.fault("receiving the seed: %w", err)
		}
		c.abort()
		return
	}
	s.run(c, 1, newPlan(seed, s.protocol.bits), s.lifeOf(seed, peer))
}

// lane makes connections, one after the other.
func (s *soak) lane(number uint64, dial func(context.Context) (connection, *process, error)) {
	rng := rand.New(rand.NewPCG(s.seed, number))
	for s.ctx.Err() == nil && s.failed.Err() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), s.patience)
		brief := rng.IntN(8) == 0
		if brief {
			cancel()
			ctx, cancel = context.WithTimeout(context.Background(), time.Duration(rng.IntN(1<<rng.IntN(16)))*time.Microsecond)
		}
		l := s.lifeWith(nil)
		c, peer, err := dial(ctx)
		l.peer = peer
		ended := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			s.dialed(c, rng.Uint64(), l)
		case brief && ended:
			s.stats.cancelled.Add(1)
		case s.mayBeStale(err):
			s.stats.stale.Add(1)
		case !l.over():
			s.fault("dialing: %w", err)
		default:
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// mayBeStale reports whether the peer has rejected a connection because it still had one of the same QP number. A device
// that was created again uses its numbers again, and the network may have lost the end of the old connection. The peer
// ends the old connection then.
func (s *soak) mayBeStale(err error) bool {
	r, ok := errors.AsType[*cm.RejectError](err)
	return ok && r.Reason == cm.RejectStaleConn && *netem != "" && s.stats.removals.Load() > 0
}

func (s *soak) dialed(c connection, seed uint64, l life) {
	if l.peer == nil {
		s.dialedLives.Store(seed, l)
	}
	if err := c.sendSeed(seed); err != nil {
		if !l.over() {
			s.fault("sending the seed: %w", err)
		}
		c.abort()
		return
	}
	s.run(c, 0, newPlan(seed, s.protocol.bits), l)
}

func stacks() string {
	var b bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&b, 1)
	return b.String()
}
