// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"bytes"
	"errors"
	"fmt"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/pool"
	"purerdma/verbs"
)

// started is an operation in flight.
type started struct {
	op   cm.Op
	code verbs.SendOpcode
	buf  *pool.Buf // nil if only the operation has a reference
	want []byte    // of a READ
	seq  uint64    // of a message
}

// burst has several operations in flight.
func (w *worker) burst() (err error) {
	var list []*started
	reading := false
	for range 1 + w.rng.IntN(6) {
		var o *started
		if o, err = w.start(reading); err != nil {
			break
		}
		if o != nil {
			list = append(list, o)
			reading = reading || o.code == verbs.OpRead
		}
	}
	sure := true
	for _, o := range list {
		failed := w.finish(o, sure)
		if err == nil {
			err = failed
		}
		sure = sure && !w.unknown
	}
	return err
}

// start starts an operation, or returns nil. No WRITE follows a READ of the same cell.
func (w *worker) start(reading bool) (*started, error) {
	f := w.f
	n := max(1, f.node.enough(size(w.rng, cellLen)))
	o := &started{code: [...]verbs.SendOpcode{verbs.OpSend, verbs.OpWrite, verbs.OpRead}[w.rng.IntN(3)]}
	switch {
	case o.code == verbs.OpWrite && reading, o.code == verbs.OpRead && w.unknown:
		return nil, nil
	case o.code == verbs.OpWrite && w.unknown:
		n = cellLen
	case o.code == verbs.OpSend:
		n = headerLen + size(w.rng, slotLen-headerLen)
	}
	b, err := f.tryGet(n)
	if b == nil {
		return nil, err
	}
	if o.code == verbs.OpSend {
		select {
		case <-f.credits:
		default:
			f.release(b)
			return nil, nil
		}
	}
	ctx, cancel := w.moment()
	defer cancel()
	off := w.rng.IntN(cellLen - min(n, cellLen) + 1)
	sge, data := b.SGE(), b.Bytes()
	var hold inflight.Holder
	switch o.code {
	case verbs.OpSend:
		o.seq = w.compose(b)
		hold, o.buf = f.hold(b, w.rng.IntN(2) == 0)
		o.op, err = f.conn.StartSend(ctx, sge, hold)
	case verbs.OpWrite:
		to, content := w.cell(off, n)
		fill(w.rng, data)
		written := bytes.Clone(data)
		hold, o.buf = f.hold(b, w.rng.IntN(2) == 0)
		if o.op, err = f.conn.StartWrite(ctx, sge, to, hold); err == nil {
			copy(content[off:], written)
			w.unknown = false
		}
	case verbs.OpRead:
		from, content := w.cell(off, n)
		o.want = content[off : off+n]
		hold, o.buf = f.hold(b, true)
		o.op, err = f.conn.StartRead(ctx, sge, from, hold)
	}
	if err == nil {
		return o, nil
	}
	if o.buf != nil {
		f.release(o.buf)
	}
	_, err = w.result(err)
	if err == nil && o.code == verbs.OpSend {
		f.unsent(o.seq)
	}
	return nil, err
}

// finish waits for an operation, or abandons it. The data of a READ are expected only if sure is
// set.
func (w *worker) finish(o *started, sure bool) error {
	f := w.f
	if o.buf != nil {
		defer f.release(o.buf)
	}
	for {
		ctx, cancel := w.moment()
		err := o.op.Wait(ctx)
		cancel()
		if pending := new(inflight.PendingError); !errors.As(err, &pending) {
			f.progress.Add(1)
			if err == nil {
				w.completed(o, sure)
			}
			return err
		}
		switch {
		case !contextEnded(err):
			o.op.Abandon()
			if !isClosed(err) {
				return fmt.Errorf("Wait: %w", err)
			}
			return err
		case w.rng.IntN(2) == 0 && w.abandon(o):
			return nil
		}
	}
}

func (w *worker) completed(o *started, sure bool) {
	f := w.f
	switch {
	case o.code == verbs.OpWrite:
		f.s.stats.writes.Add(1)
	case o.code == verbs.OpRead && o.buf != nil:
		f.s.stats.reads.Add(1)
		if sure {
			f.same(w.id, o.buf.Bytes(), o.want)
		}
	}
}

// abandon abandons an operation. The peer may or may not execute it. abandon
// reports false if too many messages were abandoned, or none may be.
func (w *worker) abandon(o *started) bool {
	f := w.f
	if o.code == verbs.OpSend {
		if f.s.spoil.patient {
			return false
		}
		f.mu.Lock()
		m, unanswered := f.sent[o.seq]
		if unanswered {
			select {
			case f.writtenOff <- struct{}{}:
			default:
				f.mu.Unlock()
				return false
			}
			m.abandoned = true
			f.sent[o.seq] = m
		}
		f.mu.Unlock()
	}
	o.op.Abandon()
	w.unknown = w.unknown || o.code == verbs.OpWrite
	f.s.stats.abandoned.Add(1)
	return true
}
