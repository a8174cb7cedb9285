// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/oob"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/provider/rxe"
	"purerdma/test/connectx"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// fakeConn is a connection on a fake kernel in memory, without a connection manager.
type fakeConn struct {
	qp   *verbs.QP
	peer *fakeConn
	done chan struct{}
	once *sync.Once // of both sides
}

func (c *fakeConn) Done() <-chan struct{} { return c.done }

func (c *fakeConn) Close() error {
	c.once.Do(func() {
		fail(c.qp)
		fail(c.peer.qp)
		close(c.done)
		close(c.peer.done)
	})
	return nil
}

// fail moves a QP, which may be closed, to the error state.
func fail(qp *verbs.QP) { _ = qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState) }

// fakeLane is lane with both sides in this process.
func fakeLane(near, far *node, number uint32) {
	s := near.s
	for gen := uint32(1); s.ctx.Err() == nil && s.failed.Err() == nil; gen++ {
		if err := fakeOnce(near, far, number, gen); err != nil {
			s.fault("lane %d.%d: %w", number, gen, err)
		}
	}
}

func fakeOnce(near, far *node, number, gen uint32) error {
	var ends [2]*end
	var paths [2]oob.Path
	var addr [2]oob.Address
	for i, n := range []*node{near, far} {
		e, err := newEnd(n, number, gen, i)
		if err != nil {
			return err
		}
		defer e.free()
		ends[i] = e
		gids, err := n.dev.GIDs()
		if err != nil {
			return err
		}
		paths[i] = oob.Path{SGIDIndex: gids[0].Index, Access: n.caps.access, RdAtomic: readDepth}
		if err := paths[i].Init(e.qp); err != nil {
			return err
		}
		e.receive()
		addr[i] = oob.NewAddress(e.qp, 0, gids[0].GID)
	}
	once := new(sync.Once)
	conns := [2]*fakeConn{{qp: ends[0].qp, done: make(chan struct{}), once: once}, {qp: ends[1].qp, done: make(chan struct{}), once: once}}
	for i, e := range ends {
		conns[i].peer = conns[1-i]
		if err := errors.Join(paths[i].Connect(e.qp, addr[i], addr[1-i]), e.peer(ends[1-i].hello())); err != nil {
			return err
		}
	}
	near.s.stats.connections.Add(1)
	var wg sync.WaitGroup
	for i, e := range ends {
		e.start()
		wg.Go(func() { e.await(conns[i]) })
	}
	wg.Wait()
	return nil
}

// fakeRXE returns a kernel in memory with rxe devices. fakeMlx5 returns a kernel with software
// ConnectXs.
func fakeRXE(testing.TB) (*verbs.Host, [2]string) {
	return &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: uverbstest.New("rxe0", "rxe1")}, [2]string{"rxe0", "rxe1"}
}

func fakeMlx5(t testing.TB) (*verbs.Host, [2]string) {
	k := inprocess.New(inprocess.Config{Violation: inprocess.Fail(t)}, "mlx5_0", "mlx5_1")
	return &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}, [2]string{"mlx5_0", "mlx5_1"}
}

// lossyMlx5 is fakeMlx5 with a wire that loses one message in fifty, or its answer, and delays
// others.
func lossyMlx5(t testing.TB) (*verbs.Host, [2]string) {
	host, names := fakeMlx5(t)
	fabric := host.Kernel.(*inprocess.Kernel).Fabric
	fabric.SetPace(100)
	random := rand.New(rand.NewPCG(1, uint64(max(*seedFlag, 1))))
	fabric.OnPacket(func(*connectx.Packet) (connectx.Fate, time.Duration) {
		switch random.IntN(100) {
		case 0:
			return connectx.Lost, 0
		case 1:
			return connectx.AnswerLost, 0
		case 2:
			return connectx.AnswerLost, 50 * time.Millisecond
		case 3:
			return connectx.Arrives, 50 * time.Millisecond
		}
		return connectx.Arrives, 0
	})
	return host, names
}

// runFake runs lanes on a kernel in memory.
func (s *soak) runFake(lanes uint32, host *verbs.Host, names [2]string) error {
	var nodes [2]*node
	for i, name := range names {
		n, err := openNode(s, host, vmtest.Host{Device: name})
		if err != nil {
			return err
		}
		defer n.Close()
		nodes[i] = n
	}
	var wg sync.WaitGroup
	for i := range lanes {
		wg.Go(func() { fakeLane(nodes[0], nodes[1], i) })
	}
	wg.Wait()
	return s.err()
}

// TestSoakInMemory runs the traffic without a real kernel, until it has included everything.
// This takes a second, or more on a slow machine.
func TestSoakInMemory(t *testing.T) {
	t.Run("rxe", func(t *testing.T) { soakInMemory(t, fakeRXE) })
	t.Run("mlx5", func(t *testing.T) { soakInMemory(t, fakeMlx5) })
	t.Run("mlx5 on a bad wire", func(t *testing.T) { soakInMemory(t, lossyMlx5) })
}

func soakInMemory(t *testing.T, kernel func(testing.TB) (*verbs.Host, [2]string)) {
	for d := time.Second; ; d *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		s := newSoak(ctx, max(*seedFlag, 1))
		host, names := kernel(t)
		err := s.runFake(16, host, names)
		cancel()
		if err != nil {
			t.Fatalf("s.runFake: %v", err)
		}
		t.Log(&s.stats)
		if s.stats.messages.Load() != 0 && s.stats.broken.Load() != 0 && s.stats.offers.Load() != 0 {
			return
		}
		if d > 10*time.Second {
			t.Fatal("the traffic has not included everything")
		}
	}
}

// TestSoakSees corrupts the traffic once in each way. The soak test must detect it and identify
// the end.
func TestSoakSees(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*spoil)
		says string
		late bool // only the end of the soak's patience shows it
	}{
		{"a flipped bit in a message", func(s *spoil) { s.message.Store(300) }, "checksum", false},
		{"a flipped bit in a region", func(s *spoil) { s.region.Store(3) }, "what the peer has written has the checksum", false},
		{"a lost completion", func(s *spoil) { s.completion.Store(300) }, " side ", true},
		{"a doubled completion", func(s *spoil) { s.twice.Store(300) }, " side ", false},
		{"a lost message", func(s *spoil) { s.skip.Store(300) }, " side ", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s := newSoak(ctx, 7)
			if c.late {
				s.patience = time.Second
			}
			c.do(&s.spoil)
			host, names := fakeRXE(t)
			err := s.runFake(8, host, names)
			t.Log(err)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "seed 7: ") {
				t.Errorf("runFake = %v, want %q", err, c.says)
			}
		})
	}
}
