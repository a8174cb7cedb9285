// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"sync"
	"time"

	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx/prm"
	"purerdma/uverbs"
)

// fakeDevice completes posted WRITEs of one element.
type fakeDevice struct {
	qp  *mlx5test.QP
	cqe []byte
	at  uint16 // WQEBB of the next request
}

// serve begins to complete the requests of a QP.
func (d *fakeDevice) serve(qp *mlx5test.QP) {
	e := mlx5test.CQE{Opcode: mlx5test.CQEReq, SendOpcode: 0x08, UserIndex: qp.Create.UIdx, QPN: qp.Num}
	d.qp, d.cqe = qp, e.Bytes(qp.SendCQ.CQESize)
}

// complete completes the next request, which has a completion if it is signaled.
func (d *fakeDevice) complete(signaled bool) {
	if signaled {
		prm.CQE.WQECounter.Set(d.cqe[len(d.cqe)-prm.CQELen:], uint64(d.at))
		if !d.qp.SendCQ.Complete(d.cqe) {
			panic("the CQ is full")
		}
	}
	d.at++
}

// fakeDriver is the driver of devices that complete WRITEs by themselves.
type fakeDriver struct {
	mlx5.Driver
	latency time.Duration // from the post of a request to its completion
}

// Open implements provider.Driver.
func (d fakeDriver) Open(f *uverbs.File) (provider.Context, error) {
	c, err := d.Driver.Open(f)
	return fakeContext{c, d.latency}, err
}

type fakeContext struct {
	provider.Context
	latency time.Duration
}

// CreateCQ implements provider.Context.
func (c fakeContext) CreateCQ(cfg *provider.CQConfig) (provider.CQ, error) {
	cq, err := c.Context.CreateCQ(cfg)
	return &fakeCQ{CQ: cq, latency: c.latency, start: time.Now()}, err
}

// CreateQP implements provider.Context.
func (c fakeContext) CreateQP(cfg *provider.QPConfig) (provider.QP, error) {
	inner, cq := *cfg, cfg.SendCQ.(*fakeCQ)
	inner.SendCQ, inner.RecvCQ = cq.CQ, cfg.RecvCQ.(*fakeCQ).CQ
	qp, err := c.Context.CreateQP(&inner)
	return &fakeQP{QP: qp, cq: cq}, err
}

// fakeCQ is the send CQ of one QP. It gets the completions when it is polled, because the machine has no processor
// for the device.
type fakeCQ struct {
	provider.CQ
	latency time.Duration
	start   time.Time

	mu      sync.Mutex
	fake    fakeDevice
	pending []fakeRequest // posted, but not completed
	armed   bool          // a goroutine sleeps, or is about to, until there is a completion
}

// fakeRequest is a posted request.
type fakeRequest struct {
	due      time.Duration // time of the completion, since fakeCQ.start
	signaled bool
}

// complete completes the requests that are due at a time. The caller holds the lock.
func (c *fakeCQ) complete(now time.Duration) {
	n := 0
	for n < len(c.pending) && c.pending[n].due <= now {
		c.fake.complete(c.pending[n].signaled)
		n++
	}
	c.pending = append(c.pending[:0], c.pending[n:]...)
}

// Poll implements provider.CQ.
func (c *fakeCQ) Poll(wcs []provider.WC) (int, error) {
	if c.latency > 0 {
		now := time.Since(c.start)
		c.mu.Lock()
		c.complete(now)
		c.mu.Unlock()
	}
	return c.CQ.Poll(wcs)
}

// Arm implements provider.CQ. The next requests complete at once, because a sleeping goroutine does not poll.
func (c *fakeCQ) Arm(solicited bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.CQ.Arm(solicited)
	c.armed = len(c.pending) == 0
	c.complete(math.MaxInt64)
	return err
}

// fakeQP completes requests after the latency of its CQ.
type fakeQP struct {
	provider.QP
	cq *fakeCQ
}

// PostSend implements provider.QP. Calls must not overlap.
func (q *fakeQP) PostSend(wrs []provider.SendWR) (int, error) {
	n, err := q.QP.PostSend(wrs)
	c := q.cq
	now := time.Duration(0)
	if c.latency > 0 {
		now = time.Since(c.start)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range n {
		signaled := wrs[i].Flags&provider.SendSignaled != 0
		if c.latency > 0 {
			c.pending = append(c.pending, fakeRequest{now + c.latency, signaled})
		} else {
			c.fake.complete(signaled)
		}
	}
	if c.armed && n > 0 {
		c.armed = false
		c.complete(math.MaxInt64)
	}
	return n, err
}
