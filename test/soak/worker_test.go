// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"purerdma/cm"
	"purerdma/pool"
	"purerdma/verbs"
)

// worker is a goroutine of a flight. It has the cell and the word of the peer's region with its
// number.
type worker struct {
	f      *flight
	id     int
	rng    *rand.Rand
	number uint64 // of its last message
	// unknown is set if the cell may or may not have the data of an abandoned WRITE.
	unknown bool
}

// run runs a number of steps.
func (w *worker) run(steps int) {
	f := w.f
	for range steps {
		if f.over.Err() != nil {
			return
		}
		if f.s.ctx.Err() != nil {
			break
		}
		if err := w.step(); err != nil {
			f.broke(err)
			return
		}
		if f.due() {
			return
		}
	}
	if err := w.read(context.Background(), 0, cellLen); err != nil {
		f.broke(err)
	}
}

// due counts a step, and ends the connection when the plan requires it.
func (f *flight) due() bool {
	n := int(f.steps.Add(1))
	if f.plan.ending == orderly || f.plan.by != f.side || n < f.plan.after || f.cancels() && n < f.plan.after+100 {
		return false
	}
	f.end(errPlanned)
	return true
}

// cancels reports whether calls are cancelled, which may break the connection.
func (f *flight) cancels() bool {
	return f.cancel && f.plan.by == f.side && int(f.steps.Load()) >= f.plan.after
}

// step calls one method, or has several operations in flight.
func (w *worker) step() error {
	f := w.f
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if f.cancels() {
		ctx, cancel = w.moment()
	}
	defer cancel()
	n := max(1, f.node.enough(size(w.rng, cellLen)))
	off := w.rng.IntN(cellLen - n + 1)
	switch w.rng.IntN(10) {
	case 0:
		return w.sendCancelled(ctx)
	case 1:
		return w.write(ctx, off, n)
	case 2:
		return w.read(ctx, off, n)
	case 3:
		if f.node.caps.atomics {
			return w.atomic(ctx)
		}
	case 4:
		if f.node.caps.atomics {
			return w.count(ctx)
		}
	case 5:
		return w.wait()
	}
	return w.burst()
}

// moment returns a context that ends at a random time, or never.
func (w *worker) moment() (context.Context, context.CancelFunc) {
	if w.rng.IntN(2) == 0 {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), time.Duration(w.rng.IntN(2000))*time.Microsecond)
}

// result processes the error of a call. It reports whether the request was executed, and returns
// the error unless the call was cancelled before the post.
func (w *worker) result(err error) (executed bool, _ error) {
	w.f.progress.Add(1)
	if contextEnded(err) {
		w.f.s.stats.cancelled.Add(1)
		if broken := new(cm.BrokenError); !errors.As(err, &broken) {
			return false, nil
		}
	}
	return err == nil, err
}

// wait waits for memory with a context that ends.
func (w *worker) wait() error {
	ctx, cancel := w.moment()
	defer cancel()
	if ctx.Done() == nil {
		ctx = w.f.over
	}
	b, err := w.f.get(ctx, 1+w.rng.IntN(slotLen))
	if err == nil {
		w.f.release(b)
	} else if contextEnded(err) {
		err = nil
	}
	return err
}

// compose returns a message and its number. The caller has a credit.
func (w *worker) compose(b *pool.Buf) uint64 {
	f := w.f
	w.number++
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	payload := b.Bytes()[headerLen:]
	fill(w.rng, payload)
	h := header{kind: kindData, lane: f.lane, gen: f.gen, seq: f.seq, a: uint64(w.id), b: w.number, length: len(payload)}
	f.sent[f.seq] = message{sum: h.put(b.Bytes())}
	return f.seq
}

// unsent takes back a message that was not posted, with its credit.
func (f *flight) unsent(seq uint64) {
	f.mu.Lock()
	_, ok := f.sent[seq]
	delete(f.sent, seq)
	f.mu.Unlock()
	if !ok {
		f.fault("message %d was answered, and its call has failed before the post", seq)
		return
	}
	f.credits <- struct{}{}
}

// send sends a message and waits for its completion.
func (w *worker) send() error { return w.sendCancelled(context.Background()) }

func (w *worker) sendCancelled(ctx context.Context) error {
	f := w.f
	select {
	case <-f.credits:
	case <-f.over.Done():
		return nil
	}
	b, err := f.get(f.over, headerLen+size(w.rng, slotLen-headerLen))
	if err != nil {
		return err
	}
	defer f.release(b)
	seq := w.compose(b)
	executed, err := w.result(f.conn.Send(ctx, b.SGE()))
	if !executed && err == nil {
		f.unsent(seq)
	}
	return err
}

// cell returns n bytes of the worker's cell from off on, and the expected content of the whole cell.
func (w *worker) cell(off, n int) (verbs.RemoteMemory, []byte) {
	start := w.id * cellLen
	return w.f.mem.remote.Slice(start+off, n), w.f.mem.copy[start:][:cellLen]
}

// write writes to the cell and waits.
func (w *worker) write(ctx context.Context, off, n int) error {
	f := w.f
	if w.unknown {
		off, n = 0, cellLen
	}
	b, err := f.get(f.over, n)
	if err != nil {
		return err
	}
	defer f.release(b)
	fill(w.rng, b.Bytes())
	to, content := w.cell(off, n)
	executed, err := w.result(f.conn.Write(ctx, b.SGE(), to))
	if executed {
		f.s.stats.writes.Add(1)
		copy(content[off:], b.Bytes())
		w.unknown = false
	}
	return err
}

// read reads from the cell and compares the data.
func (w *worker) read(ctx context.Context, off, n int) error {
	f := w.f
	if w.unknown {
		return nil
	}
	b, err := f.get(f.over, n)
	if err != nil {
		return err
	}
	defer f.release(b)
	from, content := w.cell(off, n)
	executed, err := w.result(f.conn.Read(ctx, b.SGE(), from))
	if executed {
		f.s.stats.reads.Add(1)
		f.same(w.id, b.Bytes(), content[off:off+n])
	}
	return err
}

// same reports a fault if the read data differ from the written data.
func (f *flight) same(worker int, got, want []byte) {
	if i := firstDifference(got, want); i >= 0 {
		f.fault("worker %d: of %d read bytes, those from the %dth on are % x and should be % x", worker, len(got), i, got[i:min(i+16, len(got))], want[i:min(i+16, len(want))])
	}
}

func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	i := 0
	for a[i] == b[i] {
		i++
	}
	return i
}

// word returns word i of the peer's region.
func (f *flight) word(i int) verbs.RemoteMemory { return f.mem.remote.Slice(wordsOff+8*i, 8) }

// stored returns the result of an atomic. It reports false if rxe has not stored it: see
// unwritten.
func (f *flight) stored(b []byte) (uint64, bool) {
	if f.node.caps.rxe && string(b) == unwritten && repeated() {
		f.s.stats.unwritten.Add(1)
		return 0, false
	}
	return binary.NativeEndian.Uint64(b), true
}

// atomic executes an atomic on the worker's word.
func (w *worker) atomic(ctx context.Context) error {
	f := w.f
	b, err := f.get(f.over, len(unwritten))
	if err != nil {
		return err
	}
	defer f.release(b)
	copy(b.Bytes(), unwritten)
	was, v, swapped := f.mem.word(w.id), w.rng.Uint64(), uint64(0)
	if w.rng.IntN(2) == 0 {
		swapped = was + v
		err = f.conn.FetchAdd(ctx, b.SGE(), f.word(w.id), v)
	} else {
		swapped = v
		err = f.conn.CompareSwap(ctx, b.SGE(), f.word(w.id), was, v)
	}
	executed, err := w.result(err)
	if !executed {
		return err
	}
	f.mem.setWord(w.id, swapped)
	f.s.stats.atomics.Add(1)
	if got, ok := f.stored(b.Bytes()); ok && got != was {
		f.fault("an atomic on word %d returned %#x, there was %#x", w.id, got, was)
	}
	return nil
}

// count increments the counter of all workers, and checks that no result comes twice.
func (w *worker) count(ctx context.Context) error {
	f := w.f
	b, err := f.get(f.over, len(unwritten))
	if err != nil {
		return err
	}
	defer f.release(b)
	copy(b.Bytes(), unwritten)
	executed, err := w.result(f.conn.FetchAdd(ctx, b.SGE(), f.word(counter), 1))
	if !executed {
		return err
	}
	f.s.stats.atomics.Add(1)
	got, ok := f.stored(b.Bytes())
	f.mu.Lock()
	defer f.mu.Unlock()
	if ok && f.results[got] {
		f.fault("two increments of the counter returned %#x", got)
	}
	f.results[got] = ok
	return nil
}
