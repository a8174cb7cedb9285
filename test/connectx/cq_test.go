// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"errors"
	"testing"

	"purerdma/test/connectx/prm"
)

// TestOverrun fills a completion queue without polling it.
func TestOverrun(t *testing.T) {
	h := newHost(t, nil, 1)
	cq, other := h.cq(2, nil), h.cq(5, nil)
	q := h.qp(prm.ServiceRC, cq, other, nil)
	q.connect(q.n, h.gid, nil)
	for range 4 {
		q.post(atOnce())
	}
	if v := h.next(h.eq); v != nil {
		t.Errorf("event = %x, want none", v)
	}
	q.post(atOnce())
	v := h.next(h.eq)
	if v == nil || prm.EQE.Type.Get(v) != uint64(prm.EventCQError) || uint32(prm.EventErrorCQN.Get(prm.EQE.Data.Of(v))) != cq.n ||
		prm.EventCQSyndrome.Get(prm.EQE.Data.Of(v)) != prm.CQSyndromeOverrun {
		t.Errorf("event = %x, want a CQ overrun", v)
	}
	h.wantEvent(prm.EventWQCatas, q.n)
	if s := q.state(); s != prm.QPErr {
		t.Errorf("state of the QP = %d, want error", s)
	}
	out := h.must(prm.OpQueryCQ, 16, nil, func(in []byte) { prm.ObjectIn.Number.Set(in, uint64(cq.n)) })
	if c := prm.CQIn.Context.Of(out); prm.CQC.Status.Get(c) != prm.CQStatusOverflow || prm.CQC.ProducerCounter.Get(c) != 4 {
		t.Errorf("QUERY_CQ = %x, want overflow and producer 4", c)
	}
	for range 4 {
		cq.want(prm.CQEReq, nil)
	}
	cq.empty()
}

// TestArm requests events before and after completions, solicited and unsolicited.
func TestArm(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	q := p.qb.recv
	dst := p.b.alloc(64)
	send := func(flags uint8) {
		p.qb.receive(dst, 64)
		p.qa.post(request1(prm.WQESend, flags, 0).inline([]byte("x")))
	}
	events := func(what string, want int) {
		t.Helper()
		n := 0
		for v := p.b.next(p.b.eq); v != nil; v = p.b.next(p.b.eq) {
			if prm.EQE.Type.Get(v) == uint64(prm.EventCompletion) && uint32(prm.EventCQN.Get(prm.EQE.Data.Of(v))) == q.n {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d events, want %d", what, n, want)
		}
	}
	const se = 1 << 1
	send(0)
	events("not armed", 0)
	q.arm(0)
	events("armed with a completion that was not polled", 1)
	send(0)
	events("not armed again", 0)
	q.poll()
	q.poll()
	q.arm(0)
	events("armed, nothing there", 0)
	send(0)
	send(0)
	events("armed, two came", 1)
	q.poll()
	q.poll()
	q.arm(prm.ArmSolicited)
	send(0)
	events("armed for solicited ones, another came", 0)
	send(se)
	events("armed for solicited ones, one came", 1)
	q.arm(prm.ArmSolicited)
	events("armed for solicited ones, one is there", 1)
	q.poll()
	q.poll()
	q.arm(prm.ArmSolicited)
	send(0)
	q.arm(prm.ArmSolicited)
	events("armed for solicited ones, another is there", 0)
	p.qb.receive(dst, 64)
	p.b.must(prm.Op2Err, 16, nil, func(in []byte) { prm.QPIn.QPN.Set(in, uint64(p.qb.n)) })
	events("armed for solicited ones, one was flushed", 1)
}

// resize issues the command that moves the queue to new memory, whose address it returns.
func (q *testCQ) resize(log uint, size int, change func(in []byte)) (uint64, error) {
	buf := q.h.ring(size<<log, size)
	_, err := q.h.command(prm.OpModifyCQ, 0x110, pages(buf, size<<log), func(in []byte) {
		prm.HeaderIn.OpMod.Set(in, prm.OpModResizeCQ)
		prm.CQIn.CQN.Set(in, uint64(q.n))
		prm.CQIn.Select.Set(in, prm.ResizeCQEverything)
		prm.CQC.LogCQSize.Set(prm.CQIn.Context.Of(in), uint64(log))
		if size == 128 {
			prm.CQC.CQESize.Set(prm.CQIn.Context.Of(in), prm.CQESize128)
		}
		if change != nil {
			change(in)
		}
	})
	return buf, err
}

// TestResize moves a queue with completions to other memory, to another completion size, and to
// a size that is too small.
func TestResize(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	q := p.qa.send
	for range 3 {
		p.qa.post(atOnce())
	}
	if _, err := q.resize(1, 64, nil); !errors.Is(err, statusError(prm.StatusBadSize)) {
		t.Errorf("MODIFY_CQ to 2 entries with 3 completions = %v, want BAD_SIZE", err)
	}
	if _, err := q.resize(6, 64, func(in []byte) { prm.CQIn.Select.Set(in, 1) }); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("MODIFY_CQ with a partial resize = %v, want BAD_PARAM", err)
	}
	buf, err := q.resize(6, 128, nil)
	if err != nil {
		t.Fatalf("q.resize: %v", err)
	}
	p.qa.post(atOnce())
	for range 3 {
		q.want(prm.CQEReq, nil)
	}
	q.want(prm.CQEResize, nil)
	q.buf, q.log, q.size = buf, 6, 128
	q.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.WQECounter: 3})
	q.empty()
}

// TestScatterToCQE checks that short data are stored in the completion.
func TestScatterToCQE(t *testing.T) {
	for _, tc := range []struct {
		cqe  uint64
		n    int
		cqes bool
	}{{0, 1, true}, {0, 32, true}, {0, 33, false}, {1, 32, true}, {1, 33, true}, {1, 64, true}, {1, 65, false}} {
		f := NewFabric()
		a, b := newHost(t, f, 1), newHost(t, f, 2)
		mk := func(h *host) (*testQP, *testCQ, *testCQ) {
			size := func(c []byte) { prm.CQC.CQESize.Set(c, tc.cqe) }
			send, recv := h.cq(4, size), h.cq(4, size)
			return h.qp(prm.ServiceRC, send, recv, func(c []byte) {
				prm.QPC.ScatterReq.Set(c, prm.ScatterReq32+tc.cqe*(prm.ScatterReq64-prm.ScatterReq32))
				prm.QPC.ScatterResp.Set(c, prm.ScatterResp32+tc.cqe*(prm.ScatterResp64-prm.ScatterResp32))
			}), send, recv
		}
		qa, send, _ := mk(a)
		qb, _, recv := mk(b)
		qa.connect(qb.n, b.gid, nil)
		qb.connect(qa.n, a.gid, nil)
		src, dst := a.alloc(4096), b.alloc(4096)
		text := bytes.Repeat([]byte("0123456789"), 10)[:tc.n]
		copy(a.bytes(src, tc.n), text)
		qb.receive(dst, 100)
		qa.post(request1(prm.WQESend, signaled, 0).data(tc.n, a.key, src))
		send.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.Format: 0})
		data := func(q *testCQ, buf []byte) []byte {
			at := q.h.bytes(q.buf+uint64(int(q.ci&(1<<q.log-1))*q.size), q.size)
			e := q.poll()
			switch prm.CQE.Format.Get(e) {
			case 1:
				return prm.CQE.Inline.Of(e)[:tc.n]
			case 2:
				return append([]byte(nil), at[:tc.n]...)
			}
			return buf[:tc.n]
		}
		mem := b.bytes(dst, 100)
		if got := data(recv, mem); !bytes.Equal(got, text) {
			t.Errorf("%+v: received %q", tc, got)
		}
		if in := bytes.Equal(mem[:tc.n], text); in == tc.cqes {
			t.Errorf("%+v: data in memory: %v, want the reverse", tc, in)
		}
		copy(b.bytes(dst, 100), bytes.Repeat([]byte("x"), 100))
		qa.post(request1(prm.WQERead, signaled, 0).remote(dst, b.key).data(tc.n, a.key, src+1000))
		if got := data(send, a.bytes(src+1000, 100)); !bytes.Equal(got, bytes.Repeat([]byte("x"), tc.n)) {
			t.Errorf("%+v: READ returned %q", tc, got)
		}
		// Without a completion the data go to memory.
		qa.post(request1(prm.WQERead, 0, 0).remote(dst, b.key).data(tc.n, a.key, src+2000))
		if got := a.bytes(src+2000, tc.n); !bytes.Equal(got, bytes.Repeat([]byte("x"), tc.n)) {
			t.Errorf("%+v: READ without a completion returned %q", tc, got)
		}
	}
}
