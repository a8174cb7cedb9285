// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
)

// modelHeld is an event that has not been acknowledged.
type modelHeld struct {
	ev *Event
	of *modelHandle // the handle of the listener for a request
	m  *modelMember
}

// hold lets the user acknowledge an event at once or later.
func (r *modelRun) hold(ev *Event, of *modelHandle, m *modelMember) {
	if r.rnd.IntN(2) == 0 {
		ev.Ack()
		return
	}
	r.held = append(r.held, &modelHeld{ev, of, m})
	of.held++
	if m != nil {
		m.held++
	}
}

// ack acknowledges an event, once or twice.
func (r *modelRun) ack() {
	if len(r.held) == 0 {
		return
	}
	i := r.rnd.IntN(len(r.held))
	held := r.held[i]
	r.held = slices.Delete(r.held, i, i+1)
	held.ev.Ack()
	if r.rnd.IntN(4) == 0 {
		held.ev.Ack()
	}
	held.of.held--
	if held.m != nil {
		held.m.held--
	}
}

// modelWait is a call that waits until every event is acknowledged.
type modelWait struct {
	what      string
	held      *int
	done      chan error
	cancel    context.CancelFunc
	cancelled bool
}

// destroy destroys an ID. It waits for the acknowledgements, or only checks whether some are
// missing.
func (r *modelRun) destroy(h *modelHandle, wait bool) error {
	return r.wait("Destroy", h.id.Destroy, &h.held, wait)
}

// wait makes a call that waits until every event is acknowledged.
func (r *modelRun) wait(what string, call func(context.Context) error, held *int, wait bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	if wait {
		w := &modelWait{what: what, held: held, done: make(chan error, 1), cancel: cancel}
		r.waits = append(r.waits, w)
		if *held > 0 {
			r.seen[what+" that waits"]++
		}
		go func() { w.done <- call(ctx) }()
		synctest.Wait()
		return nil
	}
	cancel()
	err := call(ctx)
	return r.judgeWait(what, *held, true, err)
}

// stopWaiting cancels one of the waiting calls.
func (r *modelRun) stopWaiting() {
	if len(r.waits) > 0 {
		w := r.waits[r.rnd.IntN(len(r.waits))]
		w.cancelled = true
		w.cancel()
	}
}

// lookAtWaits checks that exactly the calls wait that must wait.
func (r *modelRun) lookAtWaits() error {
	for _, w := range slices.Clone(r.waits) {
		select {
		case err := <-w.done:
			w.cancel()
			r.waits = slices.DeleteFunc(r.waits, func(o *modelWait) bool { return o == w })
			if err := r.judgeWait(w.what, *w.held, w.cancelled, err); err != nil {
				return err
			}
		default:
			if *w.held == 0 || w.cancelled {
				return fmt.Errorf("%s waits with %d unacknowledged events", w.what, *w.held)
			}
		}
	}
	return nil
}

// judgeWait checks the result of a wait.
func (r *modelRun) judgeWait(what string, held int, cancelled bool, err error) error {
	switch {
	case err == nil && held == 0:
		return nil
	case err != nil && held > 0 && cancelled && errors.Is(err, context.Canceled) && strings.Contains(err.Error(), "RDMA_CM_EVENT_"):
		r.seen[what+" that gives up"]++
		return nil
	}
	return fmt.Errorf("%s with %d unacknowledged events = %v", what, held, err)
}
