// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"purerdma/inflight"
	"purerdma/pool"
)

// receive takes the messages of the peer until the connection has ended.
func (f *flight) receive() {
	w := &worker{f: f, rng: f.s.rand(f.lane, f.gen, uint32(f.side)+30)} // for its contexts
	heard := sync.OnceFunc(func() { close(f.heard) })
	for {
		ctx, cancel := w.moment()
		wc, err := f.conn.WaitRecv(ctx)
		cancel()
		if contextEnded(err) && f.over.Err() == nil {
			continue
		}
		if err != nil {
			f.broke(err)
			return
		}
		f.progress.Add(1)
		heard()
		slot := wc.ID &^ recvBit
		if wc.ID&recvBit == 0 || slot >= flightRecvs || f.recvs[slot] == nil {
			f.fault("a completion of no posted receive: %+v", wc)
			return
		}
		if err := f.arrived(w, int(slot), int(wc.ByteLen)); err != nil {
			f.broke(err)
			return
		}
	}
}

// arrived processes a message of n bytes, and posts its receive again before the answer lets the peer
// send another one.
func (f *flight) arrived(w *worker, slot, n int) error {
	b := f.recvs[slot]
	data := b.Bytes()[:n]
	if now(&f.s.spoil.message) {
		data[len(data)-1] ^= 4
	}
	h, sum, err := parse(data)
	if err == nil && (h.lane != f.lane || h.gen != f.gen) {
		err = fmt.Errorf("message %d of lane %d.%d", h.seq, h.lane, h.gen)
	}
	if err != nil {
		f.fault("%w", err)
		return err
	}
	f.recvs[slot] = nil
	f.release(b)
	if err := f.postRecv(f.over, slot); err != nil {
		return err
	}
	f.s.stats.messages.Add(1)
	f.s.stats.bytes.Add(int64(n))
	switch h.kind {
	case kindData:
		return f.answer(w, &h, sum)
	case kindAnswer:
		f.answered(&h)
	case kindFin:
		close(f.fin)
	default:
		f.fault("a message of kind %d", h.kind)
	}
	return nil
}

// answer sends the checksum of a message back. The messages of a worker are in order.
func (f *flight) answer(w *worker, h *header, sum uint32) error {
	if h.a >= maxWorkers || h.b <= f.last[h.a] {
		f.fault("message %d of worker %d came twice, or out of turn", h.b, h.a)
		return nil
	}
	f.last[h.a] = h.b
	if f.plan.ending == orderly && now(&f.s.spoil.skip) {
		return nil
	}
	for range 1 + f.spoilTwice() {
		b, err := f.get(f.over, headerLen)
		if err != nil {
			return err
		}
		answer := header{kind: kindAnswer, lane: f.lane, gen: f.gen, a: h.seq, b: uint64(sum)}
		answer.put(b.Bytes())
		if w.rng.IntN(2) == 0 {
			err = f.conn.Send(context.Background(), b.SGE())
			f.release(b)
		} else {
			err = f.sendHeld(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sendHeld sends a message whose memory only the operation has a reference to.
func (f *flight) sendHeld(b *pool.Buf) error {
	op, err := f.conn.StartSend(context.Background(), b.SGE(), b)
	if err != nil {
		return err
	}
	err = op.Wait(context.Background())
	if pending := new(inflight.PendingError); errors.As(err, &pending) {
		op.Abandon()
	}
	return err
}

func (f *flight) spoilTwice() int {
	if f.plan.ending == orderly && now(&f.s.spoil.twice) {
		return 1
	}
	return 0
}

// answered returns the credit of a message.
func (f *flight) answered(h *header) {
	f.mu.Lock()
	m, ok := f.sent[h.a]
	delete(f.sent, h.a)
	f.mu.Unlock()
	switch {
	case !ok:
		f.fault("an answer to message %d, which was not sent or has had one", h.a)
	case m.sum != uint32(h.b):
		f.fault("message %d arrived with the checksum %#x, it was sent with %#x", h.a, h.b, m.sum)
	case !m.abandoned:
		f.credits <- struct{}{}
	}
}
