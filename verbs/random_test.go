// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/internal/leak"
	"purerdma/internal/longtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestRandomUse has goroutines create, connect, use and close objects of two devices at random,
// while waits are canceled and devices are removed. A ledger checks the completions, and no
// objects may remain.
func TestRandomUse(t *testing.T) {
	rounds := uint64(8)
	if longtest.Enabled() {
		rounds = 200
	}
	for name, machine := range map[string]func() uverbs.Kernel{
		"rxe": func() uverbs.Kernel { return uverbstest.New("rdma0", "rdma1") },
		"mlx5": func() uverbs.Kernel {
			return inprocess.New(inprocess.Config{Violation: inprocess.Fail(t)}, "rdma0", "rdma1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			completed := 0
			for seed := range rounds {
				before := leak.Report()
				u := &randomUse{k: cmtest.New(machine()), ledger: newLedger()}
				if err := u.run(seed); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				for _, f := range u.ledger.report() {
					t.Errorf("seed %d: %s", seed, f)
				}
				left := append(u.k.Left(), slices.DeleteFunc(leak.Report(), func(o string) bool { return slices.Contains(before, o) })...)
				if len(left) > 0 {
					t.Errorf("seed %d: left %q, want nothing", seed, left)
				}
				if t.Failed() {
					return
				}
				completed += u.ledger.completed()
			}
			t.Logf("%d completions", completed)
			if completed == 0 {
				t.Error("nothing completed: the test shows nothing")
			}
		})
	}
}

// Sizes of a round. The CQs have room for the requests of many QPs, because on rxe the
// completions of closed QPs stay in them.
const (
	randomQPs     = 8
	randomDepth   = 16
	randomEntries = 10_000
	randomMemory  = 4096
)

// randomUse holds the state of one round.
type randomUse struct {
	k      *cmtest.Kernel
	ledger *ledger
	sides  [2]*randomSide

	mu      sync.Mutex
	qps     []*randomQP
	removed bool
}

// randomSide holds the objects that stay on one of the devices for a round.
type randomSide struct {
	dev  *verbs.Device
	gid  verbs.GIDEntry
	pd   *verbs.PD
	mr   *verbs.MR
	cqs  [2]*verbs.CQ
	srq  *verbs.SRQ
	objs []io.Closer // all of them, in the order of creation
}

// randomQP is a QP with the objects that its peer needs.
type randomQP struct {
	*verbs.QP
	side, peer *randomSide
}

func (u *randomUse) run(seed uint64) error {
	host := u.k.Host()
	for i, name := range []string{"rdma0", "rdma1"} {
		s, err := newRandomSide(host, name)
		if err != nil {
			return err
		}
		u.sides[i] = s
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	polling, stop := context.WithCancel(context.Background())
	defer stop()
	var pollers, users sync.WaitGroup
	for _, s := range u.sides {
		for _, cq := range s.cqs {
			pollers.Go(func() { u.poll(polling, cq) })
		}
	}
	for i := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, i))
		users.Go(func() {
			for ctx.Err() == nil {
				u.step(ctx, r)
			}
		})
	}
	if r := rand.New(rand.NewPCG(seed, 100)); r.IntN(3) == 0 {
		users.Go(func() {
			time.Sleep(time.Duration(r.IntN(90)) * time.Millisecond)
			u.mu.Lock()
			u.removed = true
			u.mu.Unlock()
			u.k.Remove("rdma1")
		})
	}
	users.Wait()
	err := u.drain()
	stop()
	pollers.Wait()
	return errors.Join(err, u.close())
}

func newRandomSide(host *verbs.Host, name string) (*randomSide, error) {
	s := new(randomSide)
	note := func(c io.Closer, err error) error {
		if err == nil {
			s.objs = append(s.objs, c)
		}
		return err
	}
	var err error
	s.dev, err = host.Open(name)
	if err := note(s.dev, err); err != nil {
		return nil, err
	}
	gids, err := s.dev.GIDs()
	if err != nil {
		return nil, err
	}
	s.gid = gids[0]
	s.pd, err = s.dev.AllocPD()
	if err := note(s.pd, err); err != nil {
		return nil, err
	}
	s.mr, err = s.pd.Alloc(randomMemory, everything)
	if err := note(s.mr, err); err != nil {
		return nil, err
	}
	for i := range s.cqs {
		s.cqs[i], err = s.dev.CreateCQ(verbs.CQConfig{Entries: randomEntries})
		if err := note(s.cqs[i], err); err != nil {
			return nil, err
		}
	}
	s.srq, err = s.pd.CreateSRQ(verbs.SRQConfig{MaxWR: randomDepth})
	return s, note(s.srq, err)
}

// poll polls completions with Poll and with canceled waits, until ctx ends.
func (u *randomUse) poll(ctx context.Context, cq *verbs.CQ) {
	wcs := make([]verbs.WC, 7)
	for i := 0; ctx.Err() == nil; i++ {
		short, cancel := context.WithTimeout(ctx, time.Duration(i%5)*100*time.Microsecond)
		n, err := cq.Wait(short, wcs)
		cancel()
		for j := range wcs[:n] {
			u.ledger.complete(cq, &wcs[j])
		}
		switch removed := new(verbs.DeviceRemovedError); {
		case err == nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		case errors.As(err, &removed):
			return
		default:
			u.ledger.fail(err)
			return
		}
	}
}

// step executes one step.
func (u *randomUse) step(ctx context.Context, r *rand.Rand) {
	s := u.sides[r.IntN(2)]
	q := u.anyQP(r)
	switch n := r.IntN(40); {
	case q == nil || n == 0:
		u.connect(r)
	case n < 16:
		u.send(q, r)
	case n < 28:
		u.receive(q, r)
	case n < 31:
		u.receiveShared(s, r)
	case n == 31:
		u.toError(q)
	case n == 32:
		u.closeQP(q)
	case n == 33:
		s.cqs[r.IntN(2)].Resize(randomEntries + r.IntN(1000))
	case n == 34:
		if err := s.cqs[r.IntN(2)].Arm(false); err == nil {
			s.dev.QueryPort(1)
		}
	case n == 35:
		q.Query()
	case n == 36:
		s.srq.Modify(verbs.SRQAttr{Limit: r.IntN(randomDepth)}, verbs.SRQAttrLimit)
	default:
		s.makeAndClose(r)
	}
}

func (u *randomUse) anyQP(r *rand.Rand) *randomQP {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.qps) == 0 {
		return nil
	}
	return u.qps[r.IntN(len(u.qps))]
}

// connect creates a QP on each side and connects them, unless there are enough QPs.
func (u *randomUse) connect(r *rand.Rand) {
	var qps [2]*randomQP
	for i := range qps {
		s := u.sides[i]
		cfg := verbs.QPConfig{
			SendCQ: s.cqs[r.IntN(2)], RecvCQ: s.cqs[r.IntN(2)], SignalAll: r.IntN(2) == 0, Cap: verbs.QPCap{SendWR: randomDepth, RecvWR: randomDepth},
		}
		if r.IntN(4) == 0 {
			cfg.SRQ = s.srq
		}
		qp, err := s.pd.CreateQP(cfg)
		if err != nil {
			continue
		}
		qps[i] = &randomQP{qp, s, u.sides[1-i]}
	}
	u.mu.Lock()
	enough := len(u.qps)+2 > randomQPs
	if !enough && qps[0] != nil && qps[1] != nil {
		u.qps = append(u.qps, qps[:]...)
	}
	u.mu.Unlock()
	if enough || qps[0] == nil || qps[1] == nil {
		for _, q := range qps {
			if q != nil {
				q.Close()
			}
		}
		return
	}
	for i, q := range qps {
		e, peer := q.end(), qps[1-i].end()
		for _, step := range []func() (verbs.QPAttr, verbs.QPAttrMask){e.toInit, func() (verbs.QPAttr, verbs.QPAttrMask) { return e.toRTR(peer) }, e.toRTS} {
			a, mask := step()
			q.Modify(&a, mask) // it may have been closed
		}
	}
}

// end returns the QP as an end, which can be connected.
func (q *randomQP) end() *end {
	return &end{dev: q.side.dev, pd: q.side.pd, qp: q.QP, buf: q.side.mr, gid: q.side.gid.GID, gidx: q.side.gid.Index}
}

// send posts a few requests.
func (u *randomUse) send(q *randomQP, r *rand.Rand) {
	wrs := make([]verbs.SendWR, 1+r.IntN(4))
	flags := verbs.SendSignaled
	if r.IntN(8) == 0 {
		flags = 0
	}
	first := u.ledger.add(len(wrs), request{qp: q.QP, cq: q.SendCQ(), must: flags != 0 || q.SignalAll()})
	for i := range wrs {
		ops := []verbs.SendOpcode{verbs.OpSend, verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd}
		wrs[i] = verbs.SendWR{
			ID: first + uint64(i), Opcode: ops[r.IntN(len(ops))], Flags: flags, RemoteAddr: q.peer.mr.Addr(), RKey: q.peer.mr.RKey(),
			SGList: []verbs.SGE{q.side.mr.Slice(0, 8)},
		}
	}
	n, _ := q.PostSend(wrs)
	u.ledger.retract(first+uint64(n), first+uint64(len(wrs))-1)
}

// receive posts a few receives to a QP.
func (u *randomUse) receive(q *randomQP, r *rand.Rand) {
	if q.SRQ() != nil {
		return
	}
	wrs := make([]verbs.RecvWR, 1+r.IntN(4))
	first := u.ledger.add(len(wrs), request{qp: q.QP, cq: q.RecvCQ(), must: true})
	for i := range wrs {
		wrs[i] = verbs.RecvWR{ID: first + uint64(i), SGList: []verbs.SGE{q.side.mr.Slice(64, 64)}}
	}
	n, _ := q.PostRecv(wrs)
	u.ledger.retract(first+uint64(n), first+uint64(len(wrs))-1)
}

// receiveShared posts a receive to an SRQ, which is never flushed.
func (u *randomUse) receiveShared(s *randomSide, r *rand.Rand) {
	id := u.ledger.add(1, request{})
	if n, _ := s.srq.PostRecv([]verbs.RecvWR{{ID: id, SGList: []verbs.SGE{s.mr.Slice(128, 64)}}}); n == 0 {
		u.ledger.retract(id, id)
	}
}

func (u *randomUse) toError(q *randomQP) {
	q.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
}

func (u *randomUse) closeQP(q *randomQP) {
	u.mu.Lock()
	u.qps = slices.DeleteFunc(u.qps, func(o *randomQP) bool { return o == q })
	u.mu.Unlock()
	q.Close()
	u.ledger.closed(q.QP)
}

// makeAndClose creates and closes an object that no other goroutine uses.
func (s *randomSide) makeAndClose(r *rand.Rand) {
	var c io.Closer
	var err error
	switch r.IntN(5) {
	case 0:
		c, err = s.pd.Alloc(1+r.IntN(10000), everything)
	case 1:
		c, err = s.dev.AllocPD()
	case 2:
		c, err = s.pd.AllocMW(verbs.MWType2)
	case 3:
		c, err = s.dev.CreateCQ(verbs.CQConfig{Entries: 1 + r.IntN(100)})
	case 4:
		c, err = s.dev.AsyncEvents()
	}
	if err == nil {
		c.Close()
	}
}

// drain moves all QPs to the error state, and waits until all requests have completed.
func (u *randomUse) drain() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, q := range u.qps {
		err := q.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
		if u.removed && q.side == u.sides[1] {
			u.ledger.closed(q.QP)
		} else if err != nil {
			return err
		}
	}
	for end := time.Now().Add(20 * time.Second); u.ledger.outstanding() > 0; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			return fmt.Errorf("requests have not completed: %q", u.ledger.missing())
		}
	}
	return nil
}

// close closes all objects.
func (u *randomUse) close() error {
	var errs []error
	for _, q := range u.qps {
		errs = append(errs, q.Close())
	}
	for _, s := range u.sides {
		for _, o := range slices.Backward(s.objs) {
			errs = append(errs, o.Close())
		}
	}
	return errors.Join(errs...)
}
