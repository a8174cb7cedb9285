// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/pool"
	"purerdma/verbs"
)

// soak is one run within one process.
type soak struct {
	seed uint64
	// patience bounds every wait for a live peer.
	patience time.Duration
	ctx      context.Context // ends when the time is up, so that connections end.
	failed   context.Context // ends with the first fault, which ends everything
	fail     context.CancelCauseFunc

	stats  stats
	spoil  spoil
	serial atomic.Uint32
	faults atomic.Int32
	// handshakes has an element for each connect request without an answer.
	handshakes chan struct{}
	left       sync.Map // serial numbers of ends whose requests were left in their CQs
}

// stats counts the operations.
type stats struct {
	connections, broken, messages, writes, reads, atomics, offers, bytes, datagrams, lost, kills, silent, unwritten, flights, abandoned, cancelled, late atomic.Int64
}

func (s *stats) String() string {
	return fmt.Sprintf("%d connections, %d of them broken off, %d peers killed, %d ends not told of that; %d messages, %d writes, %d reads, %d atomics, %d keys given away, %d MB; %d datagrams, %d lost; %d results of atomics not stored; %d connections with operations in flight, %d operations abandoned, %d cancelled; %d late answers",
		s.connections.Load(), s.broken.Load(), s.kills.Load(), s.silent.Load(), s.messages.Load(), s.writes.Load(), s.reads.Load(), s.atomics.Load(), s.offers.Load(), s.bytes.Load()>>20,
		s.datagrams.Load(), s.lost.Load(), s.unwritten.Load(), s.flights.Load(), s.abandoned.Load(), s.cancelled.Load(), s.late.Load())
}

// newSoak creates a run until ctx ends.
func newSoak(ctx context.Context, seed uint64) *soak {
	s := &soak{seed: seed, patience: 90 * time.Second, ctx: ctx, handshakes: make(chan struct{}, handshakesAtOnce)}
	s.failed, s.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	return s
}

// fault records a fault. The first fault counts. Later ones may be its consequences and are
// only printed. The first one is printed as well before everything ends, because the kernel may
// not survive the end.
func (s *soak) fault(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	switch n := s.faults.Add(1); {
	case n == 1:
		fmt.Fprintln(os.Stderr, "soak: fault:", err)
		s.fail(err)
	case n <= 11:
		fmt.Fprintln(os.Stderr, "soak: then:", err)
	}
}

// err returns the first fault.
func (s *soak) err() error {
	if err := context.Cause(s.failed); err != nil {
		return fmt.Errorf("seed %d: %w", s.seed, err)
	}
	return nil
}

// rand returns a source of random numbers for a consumer identified by numbers.
func (s *soak) rand(what ...uint32) *rand.Rand {
	h := s.seed
	for _, w := range what {
		h = (h ^ uint64(w)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return rand.New(rand.NewPCG(s.seed, h))
}

// spoil contains the corruptions for the test of the test. The counters count down the events before
// their corruption happens.
type spoil struct {
	message, region, completion, twice, skip, leak atomic.Int64

	leaked atomic.Pointer[pool.Buf] // the Buf of leak
	early  atomic.Bool              // frees the memory of each started operation at once

	patient bool // no message is abandoned, because the test does not wait for the answer to such a message
}

// due reports whether a corruption is yet to happen. Memory is freed early all the time.
func (s *spoil) due() bool {
	return s.message.Load() > 0 || s.completion.Load() > 0 || s.twice.Load() > 0 || s.skip.Load() > 0 || s.leak.Load() > 0 || s.early.Load()
}

// now reports whether the corruption is due.
func now(n *atomic.Int64) bool { return n.Load() > 0 && n.Add(-1) == 0 }

// closeAll closes in order, and returns all errors.
func closeAll(list ...interface{ Close() error }) error {
	var errs []error
	for _, c := range list {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// caps contains the abilities of the driver in the kernel's version.
type caps struct {
	imm, atomics, windows, srq, readInv bool
	flush, atomicWrite, rereg           bool
	iwarp                               bool // see iwarp_test.go
	rxe                                 bool // see rxe_test.go
	readSGE                             int
	access                              verbs.Access
}
