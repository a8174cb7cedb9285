// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/internal/vmtest"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs/uverbstest"
)

// runFlights runs flights between two devices of a kernel in memory, for each of the lanes.
func (s *soak) runFlights(k *cmtest.Kernel, names [2]string, lanes uint32) error {
	var nodes [2]*node
	for i, name := range names {
		h := vmtest.Host{Device: name, IPv4: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}
		n, err := openNode(s, k.Host(), h)
		if err != nil {
			return err
		}
		nodes[i] = n
	}
	s.flightsBetween(nodes[0], nodes[1], lanes)
	for _, n := range nodes {
		if err := n.Close(); err != nil {
			s.fault("%w", err)
		}
	}
	return s.err()
}

func (s *soak) flightsBetween(near, far *node, lanes uint32) {
	ln, err := far.listen()
	if err != nil {
		s.fault("%w", err)
		return
	}
	var serving, active sync.WaitGroup
	serving.Go(func() { far.serve(ln) })
	here := func() (target, bool) { return target{ln.Addr().String(), func() bool { return false }}, true }
	for i := range lanes {
		active.Go(func() { near.lane(flightBit|i, here) })
	}
	active.Wait()
	ln.Close()
	serving.Wait()
}

// slowMlx5 returns software ConnectXs on a wire that delays half of the messages, so that operations are
// in flight for a while.
func slowMlx5(t testing.TB) (*cmtest.Kernel, [2]string) {
	k := inprocess.New(inprocess.Config{Violation: inprocess.Fail(t)}, "mlx5_0", "mlx5_1")
	random := rand.New(rand.NewPCG(1, uint64(max(*seedFlag, 1))))
	k.Fabric.OnPacket(func(*connectx.Packet) (connectx.Fate, time.Duration) {
		return connectx.Arrives, time.Duration(random.IntN(2)) * time.Millisecond
	})
	return cmtest.New(k), [2]string{"mlx5_0", "mlx5_1"}
}

// TestFlightsInMemory runs connections with operations in flight without a real kernel, until they
// have included everything.
func TestFlightsInMemory(t *testing.T) {
	t.Run("rxe", func(t *testing.T) {
		flightsInMemory(t, func(testing.TB) (*cmtest.Kernel, [2]string) {
			return cmtest.New(uverbstest.New("rxe0", "rxe1")), [2]string{"rxe0", "rxe1"}
		})
	})
	t.Run("mlx5", func(t *testing.T) { flightsInMemory(t, slowMlx5) })
}

func flightsInMemory(t *testing.T, kernel func(testing.TB) (*cmtest.Kernel, [2]string)) {
	for d := time.Second; ; d *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		s := newSoak(ctx, max(*seedFlag, 1))
		k, names := kernel(t)
		err := s.runFlights(k, names, 8)
		cancel()
		if err != nil {
			t.Fatalf("s.runFlights: %v", err)
		}
		if left := k.Left(); len(left) > 0 {
			t.Fatalf("Left() = %q, want nothing", left)
		}
		t.Log(&s.stats)
		if s.stats.messages.Load() != 0 && s.stats.broken.Load() != 0 && s.stats.abandoned.Load() != 0 && s.stats.cancelled.Load() != 0 {
			return
		}
		if d > 10*time.Second {
			t.Fatal("the traffic has not included everything")
		}
	}
}

// TestFlightsSee corrupts the traffic or misuses the pool once in each way. The soak test must detect
// it.
func TestFlightsSee(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*spoil)
		says string
		late bool // only the end of the soak's patience shows it
	}{
		{"a flipped bit in a message", func(s *spoil) { s.message.Store(10) }, "checksum", false},
		{"a lost answer", func(s *spoil) { s.skip.Store(5); s.patient = true }, "nothing has moved", true},
		{"a doubled answer", func(s *spoil) { s.twice.Store(5) }, "which was not sent or has had one", false},
		{"a Buf that is never freed", func(s *spoil) { s.leak.Store(10) }, "1 Bufs are in use", true},
		{"a Buf that is freed before the completion", func(s *spoil) { s.early.Store(true) }, "flight ", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s := newSoak(ctx, 7)
			if c.late {
				s.patience = 5 * time.Second // a busy machine connects in that time
			}
			c.do(&s.spoil)
			go func() { // end the traffic after the corruption
				for s.spoil.due() && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
			k, names := slowMlx5(t)
			err := s.runFlights(k, names, 8)
			if b := s.spoil.leaked.Load(); b != nil {
				b.Free()
			}
			for len(k.Left()) > 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond) // the pool deregisters the memory
			}
			t.Log(err)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "seed 7: ") {
				t.Errorf("runFlights = %v, want %q", err, c.says)
			}
		})
	}
}
