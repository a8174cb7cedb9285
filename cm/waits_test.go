// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/internal/longtest"
	"purerdma/pool"
	"purerdma/verbs"
)

// TestEveryWaitEnds looks for lost wake-ups. In each round some goroutines use a few connections whose
// completions arrive on one CQ. They send, write, read and receive, wait impatiently, and abandon
// operations. Every wait of a round must end before the next round begins, and all memory must be freed. So no
// later completion can replace a lost wake-up. There are no keepalive probes, which would do so.
func TestEveryWaitEnds(t *testing.T) {
	onAnyKernel(t, func(t *testing.T, host *verbs.Host, server, client netip.Addr) {
		each := 300 * time.Millisecond
		if longtest.Enabled() {
			each = 30 * time.Second
		}
		for _, procs := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("GOMAXPROCS=%d", procs), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				waitsEnd(t, host, server, client, each)
			})
		}
	})
}

func waitsEnd(t *testing.T, host *verbs.Host, server, client netip.Addr, each time.Duration) {
	s := cm.NewShared(cm.SharedConfig{Receive: inflight.ReceiveConfig{Size: waitBytes, Depth: 128}})
	defer closed(t, s)
	dialed, accepted := pairs(t, cm.ListenConfig{Host: host, Shared: s, KeepAlive: -1},
		cm.Dialer{Host: host, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(client, 0)), Receive: &inflight.ReceiveConfig{Size: waitBytes, Depth: 64}, KeepAlive: -1},
		server, 3)
	defer func() {
		for i := range dialed {
			closed(t, dialed[i])
			closed(t, accepted[i])
		}
	}()
	w := &waits{}
	for i, far := range dialed {
		w.pairs = append(w.pairs, newWaitPair(t, accepted[i], far, i))
	}
	end := time.Now().Add(each)
	round := uint64(0)
	for ; time.Now().Before(end) && !t.Failed(); round++ {
		w.round(t, round)
	}
	t.Logf("%d rounds", round)
}

const (
	waitBytes      = 64 // of a message or of other memory
	waitGoroutines = 6
)

// waits is the state of TestEveryWaitEnds.
type waits struct {
	pairs []*waitPair
	held  atomic.Int32 // Holders of operations that were not freed
}

// waitPair is one connection. The peer far returns the messages of near.
type waitPair struct {
	near   *cm.Conn
	remote verbs.RemoteMemory // of far
	// came gets a token for each message if a function takes them, or else it is nil.
	came chan struct{}
}

// newWaitPair returns the i-th pair. The pairs differ in the ways in which they receive.
func newWaitPair(t *testing.T, near, far *cm.Conn, i int) *waitPair {
	ctx := within(t, time.Minute)
	p := &waitPair{near: near}
	mr := ok(far.Alloc(waitGoroutines*waitBytes, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite))(t)
	p.remote = mr.Remote()
	for _, c := range []*cm.Conn{near, far} {
		c.QP().SendCQ().SetSpin(0) // so that waits sleep
		c.QP().RecvCQ().SetSpin(0)
	}
	for range 2 { // iWARP's active side sends first, and siw may deliver the first message with the second
		if err := sendCopy(ctx, far, make([]byte, waitBytes)); err != nil {
			t.Fatalf("the first messages: %v", err)
		}
	}
	for range 2 {
		ok(near.Receive(ctx))(t).Free()
	}
	if i > 0 {
		p.came = make(chan struct{}, waitGoroutines*4)
		near.HandleMessages(func(m *inflight.Message, err error) {
			if err == nil {
				m.Free()
				p.came <- struct{}{}
			}
		})
	}
	if i == 1 {
		go answerAll(far)
		go answerAll(far)
	} else {
		far.HandleMessages(func(m *inflight.Message, err error) {
			if err == nil {
				turnAround(far, m)
			}
		})
	}
	return p
}

// round lets goroutines do some operations, and waits until all have ended.
func (w *waits) round(t *testing.T, seed uint64) {
	const bound = 30 * time.Second
	rnd := rand.New(rand.NewPCG(seed, 0))
	if rnd.IntN(500) == 0 { // the goroutine of an idle CQ may end
		time.Sleep(time.Duration(90000+rnd.IntN(20000)) * time.Microsecond)
	}
	var all sync.WaitGroup
	for g := range 1 + rnd.IntN(waitGoroutines) {
		u := &waitUser{w, rand.New(rand.NewPCG(seed, uint64(g)+1)), g}
		all.Go(func() {
			for range 1 + u.rnd.IntN(3) {
				if err := u.operation(w.pairs[u.rnd.IntN(len(w.pairs))]); err != nil {
					t.Errorf("round %d: %v", seed, err)
					return
				}
			}
		})
	}
	if rnd.IntN(4) == 0 {
		all.Go(func() { w.bystander(rnd) })
	}
	ended := make(chan struct{})
	go func() {
		all.Wait()
		for w.held.Load() > 0 {
			time.Sleep(10 * time.Microsecond)
		}
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(bound):
		stacks := make([]byte, 1<<20)
		t.Fatalf("round %d has not ended after %v, %d operations have not freed their memory\n%s",
			seed, bound, w.held.Load(), stacks[:runtime.Stack(stacks, true)])
	}
}

// bystander waits for completions of the program, of which there are none.
func (w *waits) bystander(rnd *rand.Rand) {
	cq := w.pairs[0].near.QP().SendCQ()
	for range 1 + rnd.IntN(4) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.IntN(200))*time.Microsecond)
		cq.Wait(ctx, make([]verbs.WC, 1))
		cancel()
	}
}

// waitUser is a goroutine of a round.
type waitUser struct {
	*waits
	rnd    *rand.Rand
	number int
}

// operation does one thing on a connection.
func (u *waitUser) operation(p *waitPair) error {
	if u.rnd.IntN(4) == 0 {
		time.Sleep(time.Duration(u.rnd.IntN(100)) * time.Microsecond)
	}
	b, err := p.near.Pool().Get(context.Background(), waitBytes)
	if err != nil {
		return err
	}
	defer b.Free()
	remote := p.remote.Slice(u.number*waitBytes, waitBytes)
	var op cm.Op
	switch u.rnd.IntN(4) {
	case 0:
		op, err = p.near.StartWrite(context.Background(), b.SGE(), remote, u.hold(b))
	case 1:
		op, err = p.near.StartRead(context.Background(), b.SGE(), remote, u.hold(b))
	default:
		if err := u.send(p, b); err != nil {
			return fmt.Errorf("sending: %w", err)
		}
		if err := u.receive(p); err != nil {
			return fmt.Errorf("receiving: %w", err)
		}
		return nil
	}
	if err == nil {
		err = u.wait(op, cm.Op.Abandon)
	}
	return err
}

// hold returns the Holder of an operation.
func (u *waitUser) hold(b *pool.Buf) inflight.Holder {
	u.held.Add(1)
	return heldBuf{b.Ref(), &u.held}
}

// heldBuf counts the Holders that were not freed.
type heldBuf struct {
	*pool.Buf
	held *atomic.Int32
}

func (h heldBuf) Free() {
	h.Buf.Free()
	h.held.Add(-1)
}

// impatient returns a context that may end soon.
func (u *waitUser) impatient() (context.Context, context.CancelFunc) {
	if u.rnd.IntN(2) == 0 {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), time.Duration(u.rnd.IntN(200))*time.Microsecond)
}

// wait waits for an operation, again and again or until leave.
func (u *waitUser) wait(op cm.Op, leave func(cm.Op)) error {
	for {
		ctx, cancel := u.impatient()
		err := op.Wait(ctx)
		cancel()
		if pending := new(inflight.PendingError); !errors.As(err, &pending) {
			return err
		}
		if u.rnd.IntN(2) == 0 {
			leave(op)
			return nil
		}
	}
}

// send sends a message, in one of several ways.
func (u *waitUser) send(p *waitPair, b *pool.Buf) error {
	ctx := context.Background()
	switch u.rnd.IntN(4) {
	case 0:
		return p.near.Send(ctx, b.SGE())
	case 1:
		sent := make(chan error, 1)
		q, err := p.near.Operations()
		if err != nil {
			return err
		}
		wr := verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{b.SGE()}}
		if err := q.Go(ctx, &wr, nil, func(err error) { sent <- err }); err != nil {
			return err
		}
		return <-sent
	}
	op, err := p.near.StartSend(ctx, b.SGE(), u.hold(b))
	if err != nil {
		return err
	}
	if u.rnd.IntN(2) == 0 {
		op.Detach()
		return nil
	}
	return u.wait(op, cm.Op.Detach)
}

// receive takes an answer, of this goroutine or of another one.
func (u *waitUser) receive(p *waitPair) error {
	if p.came != nil {
		<-p.came
		return nil
	}
	for {
		ctx, cancel := u.impatient()
		m, err := p.near.Receive(ctx)
		cancel()
		if err == nil {
			m.Free()
			return nil
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}
