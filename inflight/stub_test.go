// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"purerdma/inflight"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// stub is the driver of a device whose requests complete when a test calls complete.
type stub struct {
	rxe.Driver
	lateReads bool // Features.LateReads
}

// Open implements provider.Driver.
func (s stub) Open(f *uverbs.File) (provider.Context, error) {
	c, err := rxe.Driver{}.Open(f)
	return stubContext{c, s.lateReads}, err
}

type stubContext struct {
	provider.Context
	lateReads bool
}

func (c stubContext) Features() provider.Features {
	f := c.Context.Features()
	f.LateReads = c.lateReads
	return f
}

func (c stubContext) CreateCQ(cfg *provider.CQConfig) (provider.CQ, error) {
	cq, err := c.Context.CreateCQ(cfg)
	return &stubCQ{CQ: cq, wake: cfg.Wake}, err
}

func (c stubContext) CreateQP(cfg *provider.QPConfig) (provider.QP, error) {
	inner := *cfg
	inner.Type = verbs.RC // the kernel of the tests has no other type
	inner.SendCQ, inner.RecvCQ = cfg.SendCQ.(*stubCQ).CQ, cfg.RecvCQ.(*stubCQ).CQ
	if cfg.SRQ != nil {
		inner.SRQ = cfg.SRQ.(*stubSRQ).SRQ
	}
	qp, err := c.Context.CreateQP(&inner)
	return &stubQP{QP: qp, cq: cfg.SendCQ.(*stubCQ), recvCQ: cfg.RecvCQ.(*stubCQ)}, err
}

func (c stubContext) CreateSRQ(cfg *provider.SRQConfig) (provider.SRQ, error) {
	srq, err := c.Context.CreateSRQ(cfg)
	return &stubSRQ{SRQ: srq}, err
}

// stubRecvs has the posted receives in their order.
type stubRecvs struct {
	mu    sync.Mutex
	recvs []verbs.RecvWR
	most  int // receives that fit, 0 for any number
}

func (r *stubRecvs) PostRecv(wrs []verbs.RecvWR) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, wr := range wrs {
		if r.most > 0 && len(r.recvs) == r.most {
			return i, verbs.ErrFull
		}
		wr.SGList = slices.Clone(wr.SGList)
		r.recvs = append(r.recvs, wr)
	}
	return len(wrs), nil
}

// count returns the number of posted receives.
func (r *stubRecvs) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.recvs)
}

// pop removes the oldest receive.
func (r *stubRecvs) pop(t testing.TB) verbs.RecvWR {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.recvs) == 0 {
		t.Fatal("no receive is posted")
	}
	wr := r.recvs[0]
	r.recvs = r.recvs[1:]
	return wr
}

// stubSRQ has the receives of an SRQ.
type stubSRQ struct {
	provider.SRQ
	stubRecvs
}

func (s *stubSRQ) PostRecv(wrs []verbs.RecvWR) (int, error) { return s.stubRecvs.PostRecv(wrs) }

// Unused implements provider.UnusedReporter.
func (s *stubSRQ) Unused() int { return s.count() }

// stubCQ has the completions that tests put into it.
type stubCQ struct {
	provider.CQ
	wake func()

	mu    sync.Mutex
	queue []verbs.WC
	fail  error // of Poll
}

func (c *stubCQ) Arm(bool) error { return nil } // put always wakes

func (c *stubCQ) Poll(wcs []verbs.WC) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(wcs, c.queue)
	c.queue = append(c.queue[:0], c.queue[n:]...)
	return n, c.fail
}

func (c *stubCQ) put(wcs ...verbs.WC) {
	c.mu.Lock()
	c.queue = append(c.queue, wcs...)
	c.mu.Unlock()
	c.wake()
}

// stubQP records the posted requests.
type stubQP struct {
	provider.QP
	cq     *stubCQ
	recvCQ *stubCQ
	own    stubRecvs

	mu      sync.Mutex
	posted  []verbs.SendWR
	calls   []int // requests of each call of PostSend
	full    bool
	refuse  func(*verbs.SendWR) error // or nil
	bell    error                     // of the doorbell
	bells   []error                   // of the first doorbells, before bell
	hold    chan struct{}             // PostSend waits for it if it is not nil
	instant bool                      // requests complete when they are posted
	closed  func()                    // after Close
}

func (q *stubQP) Close() error {
	err := q.QP.Close()
	if q.closed != nil {
		q.closed()
	}
	return err
}

func (q *stubQP) PostRecv(wrs []verbs.RecvWR) (int, error) { return q.own.PostRecv(wrs) }

func (q *stubQP) PostSend(wrs []verbs.SendWR) (int, error) {
	if q.instant {
		var one [1]verbs.WC
		for i := range wrs {
			if wrs[i].Flags&verbs.SendSignaled != 0 {
				one[0] = q.completion(&wrs[i], verbs.WCSuccess)
				q.cq.put(one[:]...)
			}
		}
		return len(wrs), nil
	}
	q.mu.Lock()
	hold := q.hold
	q.mu.Unlock()
	if hold != nil {
		<-hold
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range wrs {
		if q.full {
			return i, verbs.ErrFull
		}
		if q.refuse != nil {
			if err := q.refuse(&wrs[i]); err != nil {
				return i, err
			}
		}
		wr := wrs[i]
		wr.SGList = slices.Clone(wr.SGList)
		q.posted = append(q.posted, wr)
	}
	q.calls = append(q.calls, len(wrs))
	if len(q.bells) > 0 {
		bell := q.bells[0]
		q.bells = q.bells[1:]
		return len(wrs), bell
	}
	return len(wrs), q.bell
}

// take waits until n requests are posted and removes them.
func (q *stubQP) take(t testing.TB, n int) []verbs.SendWR {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Microsecond) {
		q.mu.Lock()
		if len(q.posted) >= n {
			wrs := q.posted[:n:n]
			q.posted = slices.Clone(q.posted[n:])
			q.mu.Unlock()
			return wrs
		}
		have := len(q.posted)
		q.mu.Unlock()
		if time.Now().After(end) {
			t.Fatalf("%d requests are posted after 10 s, want %d", have, n)
		}
	}
}

// waiting returns the number of posted requests that were not taken.
func (q *stubQP) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.posted)
}

// completion returns a completion of a request.
func (q *stubQP) completion(wr *verbs.SendWR, status verbs.WCStatus) verbs.WC {
	return verbs.WC{ID: wr.ID, Status: status, QPNum: q.Num()}
}

// complete completes requests as a device does: only those with SendSignaled, and failed ones.
func (q *stubQP) complete(status verbs.WCStatus, wrs ...verbs.SendWR) {
	var wcs []verbs.WC
	for i := range wrs {
		if status != verbs.WCSuccess || wrs[i].Flags&verbs.SendSignaled != 0 {
			wcs = append(wcs, q.completion(&wrs[i], status))
		}
	}
	q.cq.put(wcs...)
}

// rig is a Queue on a stubQP.
type rig struct {
	*inflight.Queue
	qp  *verbs.QP
	hw  *stubQP
	dev *verbs.Device
	pd  *verbs.PD
}

func newRig(t testing.TB, cfg inflight.Config, qpc verbs.QPConfig) *rig {
	t.Helper()
	return newRigOn(t, stub{}, cfg, qpc)
}

// newRigOn is newRig with a driver.
func newRigOn(t testing.TB, driver stub, cfg inflight.Config, qpc verbs.QPConfig) *rig {
	t.Helper()
	k := uverbstest.New("rxe0")
	k.ReuseNumbers = true
	host := &verbs.Host{Drivers: []provider.Driver{driver}, Kernel: k}
	dev, err := host.Open("rxe0")
	if err != nil {
		t.Fatalf("Host.Open(rxe0) = %v", err)
	}
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatalf("AllocPD() = %v", err)
	}
	r := &rig{dev: dev, pd: pd}
	t.Cleanup(func() {
		if err := r.qp.Close(); err != nil {
			t.Errorf("QP.Close() = %v", err)
		}
		if err := pd.Close(); err != nil {
			t.Errorf("PD.Close() = %v", err)
		}
		if err := dev.Close(); err != nil {
			t.Errorf("Device.Close() = %v", err)
		}
	})
	if r.qp, err = pd.CreateQP(qpc); err != nil {
		t.Fatalf("CreateQP(%+v) = %v", qpc, err)
	}
	r.hw = r.qp.Provider().(*stubQP)
	if r.Queue, err = inflight.New(r.qp, cfg); err != nil {
		t.Fatalf("New(%+v) = %v", cfg, err)
	}
	return r
}

// write returns a request whose remote address identifies it.
func write(n int) *verbs.SendWR {
	return &verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: uint64(n)}
}

// submit starts a write.
func (r *rig) submit(t testing.TB, n int, hold inflight.Holder) inflight.Op {
	t.Helper()
	p, err := r.Submit(write(n), hold)
	if err != nil {
		t.Fatalf("Submit(%d) = %v", n, err)
	}
	return p
}

// soon is a context that ends when a call hangs.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// held counts the calls of Free.
type held struct {
	mu    sync.Mutex
	freed int
}

func (h *held) Free() {
	h.mu.Lock()
	h.freed++
	h.mu.Unlock()
}

func (h *held) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.freed
}
