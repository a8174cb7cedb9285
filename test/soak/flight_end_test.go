// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"purerdma/verbs"
)

// conclude ends the connection after all workers have finished. The active side sends its last message
// when its messages have been answered. The passive side then does the same, and the active side
// closes the connection.
func (f *flight) conclude() {
	for range window {
		select {
		case <-f.credits:
		case <-f.writtenOff:
		case <-f.over.Done():
			return
		}
	}
	if f.side == 0 {
		f.finish()
	}
	select {
	case <-f.fin:
	case <-f.over.Done():
		return
	}
	f.quitting.Store(true)
	if f.side == 0 {
		f.end(errDone)
		return
	}
	f.finish()
}

// finish sends the last message.
func (f *flight) finish() {
	b, err := f.get(f.over, headerLen)
	if err == nil {
		h := header{kind: kindFin, lane: f.lane, gen: f.gen}
		h.put(b.Bytes())
		err = f.conn.Send(context.Background(), b.SGE())
		f.release(b)
	}
	if err != nil {
		f.broke(err)
	}
}

// watch waits for the end, and checks for progress before it.
func (f *flight) watch() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, since := int64(-1), time.Now()
	for {
		select {
		case <-f.over.Done():
			return
		case <-f.conn.Done():
			f.broke(errPeerEnded)
			return
		case <-tick.C:
		}
		switch stands := time.Since(since); {
		case f.progress.Load() != last:
			last, since = f.progress.Load(), time.Now()
		case stands > f.s.patience/4 && f.dropped():
			f.s.stats.silent.Add(1)
			f.end(errPeerEnded)
		case stands > f.s.patience:
			f.fault("nothing has moved for %v: %s", f.s.patience, f.state())
		}
	}
}

// state describes the state of a waiting flight.
func (f *flight) state() string {
	a, err := f.qp.Query()
	qp := fmt.Sprintf("QP %d to %d in %v, PSN %d out and %d in", f.qp.Num(), a.DestQPNum, a.State, a.SQPSN, a.RQPSN)
	if err != nil {
		qp = err.Error()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%d results, %d messages sent, %d without an answer, %d credits, %d written off; pool %+v; %s",
		f.progress.Load(), f.seq, len(f.sent), len(f.credits), len(f.writtenOff), f.buffers.Stats(), qp)
}

// close ends the connection according to its plan.
func (f *flight) close() {
	planned := context.Cause(f.over) == errPlanned
	if planned || f.cancels() {
		f.s.stats.broken.Add(1)
	}
	if planned {
		switch f.plan.ending {
		case closeQP:
			f.check("closing a QP", f.qp.Close())
		case closeMR:
			f.check("closing a region", f.mem.mr.Close())
			time.Sleep(20 * time.Millisecond) // the peer continues
		case toError:
			f.check("QP to ERR", f.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState))
			time.Sleep(20 * time.Millisecond) // the workers continue
		}
	}
	f.check("closing a connection", f.conn.Close())
}

// free closes the objects. The receives end with the QP.
func (f *flight) free() {
	var errs []error
	if f.qp != nil {
		errs = append(errs, f.qp.Close())
	}
	for _, b := range f.recvs {
		if b != nil {
			f.release(b)
		}
	}
	for _, cq := range []*verbs.CQ{f.send, f.recv} {
		if cq != nil {
			errs = append(errs, cq.Close())
		}
	}
	if f.mem != nil {
		errs = append(errs, f.mem.mr.Close())
	}
	if f.place != nil {
		errs = append(errs, f.place.close(f.node))
	}
	f.check("closing", errors.Join(errs...))
}

// broke ends the connection after an error, which is a fault if no plan explains it.
func (f *flight) broke(err error) {
	expected := f.plan.ending != orderly || f.quitting.Load() || f.dropped() || f.unheard() || f.s.failed.Err() != nil
	if f.over.Err() == nil && !expected {
		f.fault("the connection has broken: %w", err)
	}
	f.end(err)
}

func (f *flight) check(what string, err error) {
	if err != nil {
		f.fault("%s: %w", what, err)
	}
}

func (f *flight) fault(format string, args ...any) {
	f.s.fault("%s: %w", f.name, fmt.Errorf(format, args...))
}

// contextEnded reports whether an error is the end of a call's context.
func contextEnded(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }
