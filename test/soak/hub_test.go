// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"purerdma/verbs"
)

// hub is a CQ with its waiters and the ends of its completions.
type hub struct {
	s      *soak
	cq     *verbs.CQ
	srq    *srqPool // SRQ whose receives complete in this CQ, or nil
	cancel context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup

	mu   sync.Mutex
	ends map[uint32]*end // by QP number
}

func newHub(s *soak, dev *verbs.Device, cfg verbs.CQConfig) (*hub, error) {
	cq, err := dev.CreateCQ(cfg)
	if err != nil {
		return nil, err
	}
	h := &hub{s: s, cq: cq, ends: map[uint32]*end{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

// wait starts n waiters.
func (h *hub) wait(n int) *hub {
	for range n {
		h.wg.Go(func() {
			wcs := make([]verbs.WC, 1+n)
			for {
				k, err := h.cq.Wait(h.ctx, wcs)
				h.dispatch(wcs[:k])
				if err != nil {
					if h.ctx.Err() == nil {
						h.s.fault("waiting for completions: %w", err)
					}
					return
				}
			}
		})
	}
	return h
}

// poll starts a poller.
func (h *hub) poll() *hub {
	h.wg.Go(func() {
		wcs := make([]verbs.WC, 8)
		for h.ctx.Err() == nil {
			if h.drain(wcs) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
	return h
}

// drain processes the available completions, and returns their number.
func (h *hub) drain(wcs []verbs.WC) int {
	for total := 0; ; {
		n, err := h.cq.Poll(wcs)
		if err != nil && !errors.Is(err, net.ErrClosed) {
			h.s.fault("polling: %w", err)
		}
		h.dispatch(wcs[:n])
		if total += n; n < len(wcs) {
			return total
		}
	}
}

func (h *hub) dispatch(wcs []verbs.WC) {
	for i := range wcs {
		h.mu.Lock()
		e := h.ends[wcs[i].QPNum]
		h.mu.Unlock()
		if e != nil && e.takes(wcs[i].ID) {
			// A flushed completion may have no effect.
			if wcs[i].Err() == nil && now(&h.s.spoil.completion) {
				continue
			}
			e.complete(wcs[i])
			if now(&h.s.spoil.twice) {
				e.complete(wcs[i])
			}
			continue
		}
		if wcs[i].ID&srqID != 0 && h.srq != nil {
			h.srq.post(wcs[i].ID &^ srqID)
			continue
		}
		if _, ok := h.s.left.Load(uint32(wcs[i].ID >> 32)); !ok {
			h.s.fault("a completion that is nobody's: %+v", wcs[i])
		}
	}
}

func (h *hub) add(e *end) {
	h.mu.Lock()
	h.ends[e.qp.Num()] = e
	h.mu.Unlock()
}

func (h *hub) remove(e *end) {
	h.mu.Lock()
	if h.ends[e.qp.Num()] == e {
		delete(h.ends, e.qp.Num())
	}
	h.mu.Unlock()
}

// Close ends the waiters and closes the CQ.
func (h *hub) Close() error {
	h.cancel()
	h.wg.Wait()
	return h.cq.Close()
}

// looper serves all CQs of a channel in one goroutine.
type looper struct {
	s      *soak
	ch     *verbs.CompChannel
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu   sync.Mutex
	hubs map[*verbs.CQ]*hub
}

func newLooper(s *soak, dev *verbs.Device) (*looper, error) {
	ch, err := dev.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	l := &looper{s: s, ch: ch, hubs: map[*verbs.CQ]*hub{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Go(l.run)
	return l, nil
}

func (l *looper) run() {
	wcs := make([]verbs.WC, 8)
	for {
		cq, err := l.ch.Next(l.ctx)
		if err != nil {
			if l.ctx.Err() == nil {
				l.s.fault("waiting for the event of a CQ: %w", err)
			}
			return
		}
		l.mu.Lock()
		h := l.hubs[cq]
		l.mu.Unlock()
		if h != nil { // otherwise it was closed
			l.serve(h, wcs)
		}
	}
}

func (l *looper) serve(h *hub, wcs []verbs.WC) {
	if err := h.cq.Arm(false); err != nil && !errors.Is(err, net.ErrClosed) {
		l.s.fault("arming: %w", err)
	}
	h.drain(wcs)
}

// add makes the looper serve a hub, until the returned value is closed.
func (l *looper) add(h *hub) error {
	l.mu.Lock()
	l.hubs[h.cq] = h
	l.mu.Unlock()
	return h.cq.Arm(false)
}

func (l *looper) remove(h *hub) {
	l.mu.Lock()
	delete(l.hubs, h.cq)
	l.mu.Unlock()
}

func (l *looper) Close() error {
	l.cancel()
	l.wg.Wait()
	return l.ch.Close()
}
