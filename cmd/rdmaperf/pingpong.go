// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"purerdma/verbs"
)

// oneByOne posts one request at a time and waits for its end. It records the durations of count
// requests, or of as many as fit into limit.
func (e *end) oneByOne(ctx context.Context, size int, count uint64, limit time.Duration, h *histogram) (messages uint64, took time.Duration, err error) {
	l := e.lanes[0]
	e.received = e.takeEcho
	start := time.Now()
	var last time.Duration // since start, because reading the monotonic clock is faster
	half := time.Duration(1)
	if e.kind.echo {
		half = 2
	}
	for messages < count || limit > 0 && last < limit {
		if err := e.round(ctx, l, size); err != nil {
			return 0, 0, err
		}
		now := time.Since(start)
		h.add((now - last) / half)
		last = now
		messages++
	}
	return messages, last, nil
}

func (e *end) round(ctx context.Context, l *lane, size int) error {
	if err := e.makeRoom(ctx, l); err != nil {
		return err
	}
	switch {
	case e.kind.opcode == verbs.OpWrite:
		l.out[size-1] = mark(l.posted + 1)
		if err := e.post(l, 1, size); err != nil {
			return err
		}
		return e.watch(ctx, l, size, mark(l.posted))
	case e.kind.echo:
		want := l.received + 1
		if err := e.post(l, 1, size); err != nil {
			return err
		}
		for l.received < want {
			if err := e.next(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if err := e.post(l, 1, size); err != nil {
		return err
	}
	for l.completed < l.posted {
		if err := e.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mark returns the last byte of the message of a round. It is never zero, as in cleared memory.
func mark(round uint64) byte { return byte(round%255 + 1) }

// makeRoom waits until the send queue has room for one more request.
func (e *end) makeRoom(ctx context.Context, l *lane) error {
	for l.posted-l.completed >= uint64(e.Depth) {
		if err := e.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// watch polls the last byte of the incoming message until it is the mark of this round.
func (e *end) watch(ctx context.Context, l *lane, size int, want byte) error {
	in := e.incomingBytes(l, size)
	for i := 1; lastByte(in) != want; i++ {
		if i%emptyPolls != 0 {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// A broken connection shows in the CQ.
		n, err := e.cq.Poll(e.wcs)
		if err != nil {
			return err
		}
		if err := e.book(n); err != nil {
			return err
		}
	}
	return nil
}

// takeEcho handles a receive of the side that started the ping-pong.
func (e *end) takeEcho(l *lane, wc *verbs.WC) error {
	l.received++
	l.bytes += uint64(int(wc.ByteLen) - e.head())
	return e.repost(l, 1)
}

// answer is the other side of a ping-pong. It sends each message back until all have arrived.
func (e *end) answer(ctx context.Context, size int) error {
	l := e.lanes[0]
	e.received = e.takeEcho
	for answered := uint64(0); !e.complete(); answered++ {
		if e.kind.opcode == verbs.OpWrite {
			if err := e.watch(ctx, l, size, mark(l.posted+1)); err != nil {
				return err
			}
			l.received++
			l.bytes += uint64(size)
			l.out[size-1] = mark(l.posted + 1)
		} else {
			for l.received == answered {
				if err := e.next(ctx); err != nil {
					return err
				}
			}
		}
		if err := e.makeRoom(ctx, l); err != nil {
			return err
		}
		if err := e.post(l, 1, size); err != nil {
			return err
		}
	}
	return nil
}

// complete reports whether all messages that the client has announced have arrived.
func (e *end) complete() bool {
	target := e.target.Load()
	if target == 0 {
		return false
	}
	var have uint64
	for _, l := range e.lanes {
		have += l.received
	}
	return have >= target
}
