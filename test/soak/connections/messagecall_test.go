// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"purerdma/msg"
	"purerdma/verbs"
)

// caller makes calls with memory of its own, until it has sent its part of the bytes. It returns false if the
// connection has failed.
func (e *messageEnd) caller(g uint64, mem []byte) bool {
	rng := rand.New(rand.NewPCG(e.plan.seed, 8+uint64(e.side)<<8+g))
	e.count(0)
	left := e.plan.size[e.side] / callers
	for i := uint64(1); left > 0; i++ {
		p := e.plan.call(e.side, g<<32|i, e.most)
		if err := e.call(p, g, mem, rng); err != nil {
			e.failed(p.String(), err)
			return false
		}
		left -= int64(p.data + p.parts*p.reply + msgHeader)
		if rng.IntN(16) == 0 {
			pause(rng)
		}
	}
	return true
}

// call makes a call, and cancels it sometimes. A cancelled call that lends memory may cost the peer its connection
// on a loaded machine, because Do waits only a second for the peer. So only connections that abort do that.
func (e *messageEnd) call(p callPlan, g uint64, mem []byte, rng *rand.Rand) error {
	ctx := context.Background()
	if rng.IntN(8) == 0 && p.kind != loanCall && (p.kind != lentCall || e.plan.ending == aborts) {
		brief, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(1<<rng.IntN(14)))*time.Microsecond)
		defer cancel()
		ctx = brief
	}
	err := e.callIn(ctx, p, g, mem, rng)
	remote, ok := errors.AsType[*msg.RemoteError](err)
	switch {
	case ok && (p.kind == failedCall || p.kind == ignoredCall):
		if remote.Reason != p.reason() {
			e.fault("%v: reason %q, want %q", p, remote.Reason, p.reason())
		}
	case err == nil && (p.kind == failedCall || p.kind == ignoredCall):
		e.fault("%v has succeeded, want a *msg.RemoteError", p)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		e.s.stats.expired.Add(1)
		return nil
	case err != nil:
		return err
	}
	e.s.stats.kinds[p.kind].Add(1)
	return nil
}

func (e *messageEnd) callIn(ctx context.Context, p callPlan, g uint64, mem []byte, rng *rand.Rand) error {
	data := e.out(p, partRequest, p.data)
	switch p.kind {
	case oneWay:
		if e.plan.ending == aborts || !e.s.spoil.short() {
			if err := e.conn.Send(ctx, p.tag, data); err != nil {
				return err
			}
		}
		e.sent[g].Add(1)
		e.count(len(data) + msgHeader)
		return nil
	case lentCall, loanCall:
		return e.callLending(ctx, p, data, mem[:2*p.lent], rng)
	case streamCall:
		return e.callStream(ctx, p, data, rng)
	}
	m, err := e.conn.Call(ctx, p.tag, data)
	return e.answered(m, err, p)
}

// answered checks an answer, and frees it.
func (e *messageEnd) answered(m *msg.Message, err error, p callPlan) error {
	if err != nil {
		return err
	}
	defer m.Free()
	if m.Tag() != p.tag {
		e.fault("%v: reply with tag %#x", p, m.Tag())
	}
	e.check(m.Bytes(), p, partReply, p.reply)
	return nil
}

// callLending lends the two halves of mem, of the MR or of the Go heap. After the call the memory must not change.
func (e *messageEnd) callLending(ctx context.Context, p callPlan, data, mem []byte, rng *rand.Rand) error {
	mr := e.conn.mr
	if rng.IntN(2) == 0 {
		mem, mr = make([]byte, len(mem)), nil
	}
	out, in := mem[:p.lent], mem[p.lent:]
	copy(out, e.out(p, partRead, p.lent))
	clear(in)
	var m *msg.Message
	var err error
	if p.kind == lentCall {
		m, err = e.conn.Do(ctx, &msg.Request{Tag: p.tag, Data: data, Read: msg.Memory{Bytes: out, MR: mr}, Write: msg.Memory{Bytes: in, MR: mr}})
	} else {
		m, err = e.callWithLoan(ctx, p, data, msg.Memory{Bytes: mem, MR: mr})
	}
	if err = e.answered(m, err, p); err == nil {
		e.check(in, p, partWrite, p.lent)
	}
	clear(mem)
	pause(rng)
	if n := bytes.Count(mem, []byte{0}); n != len(mem) {
		e.fault("%v: %d bytes were written after the call has returned %v", p, len(mem)-n, err)
	}
	return err
}

// callWithLoan makes a call with the token of lent memory in its data.
func (e *messageEnd) callWithLoan(ctx context.Context, p callPlan, data []byte, mem msg.Memory) (*msg.Message, error) {
	loan, err := e.conn.Lend(ctx, mem, verbs.RemoteRead|verbs.RemoteWrite)
	if err != nil {
		return nil, err
	}
	token, err := loan.Token().MarshalBinary()
	if err != nil {
		return nil, errors.Join(err, loan.Close())
	}
	m, err := e.conn.Call(ctx, p.tag, append(token, data...))
	if failed := loan.Close(); failed != nil {
		e.failed("Loan.Close", failed)
	}
	return m, err
}

// callStream makes a call with several replies, and frees some of them late. It sometimes closes it early.
func (e *messageEnd) callStream(ctx context.Context, p callPlan, data []byte, rng *rand.Rand) (err error) {
	most := 1 + rng.IntN(3)
	r, err := e.conn.Stream(ctx, &msg.Request{Tag: p.tag, Data: data, Parts: most})
	if err != nil {
		return err
	}
	var held []*msg.Message
	defer func() {
		for _, m := range held {
			m.Free()
		}
		if failed := r.Close(); failed != nil {
			e.failed("Replies.Close", failed)
		}
	}()
	early := rng.IntN(64)
	for i := range p.parts {
		if i == early {
			e.s.stats.expired.Add(1)
			return nil
		}
		m, err := r.Next(ctx)
		if err != nil {
			return err
		}
		if m.Tag() != uint64(i) {
			e.fault("%v: part with tag %d, want %d", p, m.Tag(), i)
		}
		e.check(m.Bytes(), p, partOfStream+uint64(i), p.reply)
		if held = append(held, m); len(held) == most {
			held[0].Free()
			held = held[1:]
		}
	}
	m, err := r.Next(ctx)
	if err = e.answered(m, err, p); err != nil {
		return err
	}
	if m, err := r.Next(ctx); err != io.EOF {
		e.fault("%v: Next() after the reply = %v, %v, want %v", p, m, err, io.EOF)
	}
	return nil
}
