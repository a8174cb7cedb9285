// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"purerdma/verbs"
)

// peakWindow is the minimum time over which the peak rate is measured.
const peakWindow = 10 * time.Millisecond

// stream keeps all send queues full and waits until all messages have completed. It sends count
// messages on each QP, or as many as fit into limit. It returns their number, the time, and the
// highest rate in messages a second.
func (e *end) stream(ctx context.Context, size int, count uint64, limit time.Duration) (messages uint64, took time.Duration, peak float64, err error) {
	e.received = e.takeCredit
	for _, l := range e.lanes {
		l.limit = l.posted + count
	}
	before := e.done.Load()
	start := time.Now()
	from := before
	var now, at time.Duration // since start: current time and start of the window
	for {
		if limit > 0 && now < limit {
			for _, l := range e.lanes {
				l.limit = l.posted + uint64(e.Depth)
			}
		}
		busy := false
		for _, l := range e.lanes {
			if err := e.refill(l, size); err != nil {
				return 0, 0, 0, err
			}
			busy = busy || l.completed < l.limit
		}
		if !busy {
			return e.done.Load() - before, now, peak, nil
		}
		if err := e.next(ctx); err != nil {
			return 0, 0, 0, err
		}
		now = time.Since(start)
		if w := now - at; w >= peakWindow {
			peak = max(peak, float64(e.done.Load()-from)/w.Seconds())
			from, at = e.done.Load(), now
		}
	}
}

// refill posts lists of requests while they fit. Like perftest it posts whole lists, except for
// lists that are longer than one announcement of the peer's receives.
func (e *end) refill(l *lane, size int) error {
	for {
		n := min(uint64(e.List), l.limit-l.posted)
		if e.kind.opcode == verbs.OpSend && l.credit < n {
			if n <= creditBatch {
				return nil // enough of the peer's receives are in use that it will announce more
			}
			n = l.credit
		}
		if n == 0 || l.posted-l.completed+n > uint64(e.Depth) {
			return nil
		}
		if e.kind.opcode == verbs.OpSend {
			l.credit -= n
		}
		if err := e.post(l, int(n), size); err != nil {
			return err
		}
	}
}

// takeCredit handles a receive of the sending side, which announces posted receives of the
// other side.
func (e *end) takeCredit(l *lane, _ *verbs.WC) error {
	l.credit += creditBatch
	return e.repost(l, 1)
}

// takeMessage handles a receive of the sink. After a number of receives it posts them again and
// announces them in a message without a body.
func (e *end) takeMessage(l *lane, wc *verbs.WC) error {
	l.received++
	l.bytes += uint64(int(wc.ByteLen) - e.head())
	if l.reposts++; l.reposts < creditBatch {
		return nil
	}
	l.reposts = 0
	if err := e.repost(l, creditBatch); err != nil {
		return err
	}
	l.credits[0] = verbs.SendWR{ID: uint64(l.index) << laneShift, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}
	if l.ah != nil {
		l.credits[0].AH, l.credits[0].RemoteQPN, l.credits[0].RemoteQKey = l.ah, l.qpn, l.qkey
	}
	_, err := l.qp.PostSend(l.credits[:])
	return err
}
