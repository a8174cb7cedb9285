// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"slices"
	"testing"
)

// wantEvent checks the next asynchronous event of a QP.
func wantEvent(t *testing.T, q *testQP, kind uint8) {
	t.Helper()
	if k, n, ok := q.r.event(); !ok || k != kind || n != q.n {
		t.Errorf("event = %d of %#x, %v, want %d of %#x", k, n, ok, kind, q.n)
	}
}

// TestLocalErrors checks the status of a request that fails at its own end. Later requests and
// all receives are flushed at both ends.
func TestLocalErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		want  status
		wrong bool // whether the driver must not post the request.
		post  func(a *testQP, m, to region)
	}{
		"no key": {10, false, func(a *testQP, m, to region) {
			m.key++
			a.push(sendOf(opSend, 0, m, 0, 1))
		}},
		"address before": {11, false, func(a *testQP, m, to region) { a.push(sendOf(opSend, 0, region{m.key, m.addr - 1}, 0, 2)) }},
		"address after":  {11, false, func(a *testQP, m, to region) { a.push(sendOf(opSend, 0, m, pageSize-1, 2)) }},
		"long":           {11, false, func(a *testQP, m, to region) { a.push(sendOf(opSend, 0, m, 0, 1<<31)) }},
		"wraps":          {11, false, func(a *testQP, m, to region) { a.push(sendOf(opSend, 0, region{m.key, ^uint64(0)}, 0, 2)) }},
		"right":          {12, false, func(a *testQP, m, to region) { a.push(readOf(opRead, 0, to, m, 1)) }},
		"PD": {13, false, func(a *testQP, m, to region) {
			m.key = a.r.regMR(mrNormal, localRead, 2, m.addr, pageSize, 12<<27|1, []uint64{m.addr})
			a.push(sendOf(opSend, 0, m, 0, 1))
		}},
		"opcode":       {8, true, func(a *testQP, m, to region) { a.push(wqe{opcode: 30, body: body(0, 0, 0, 0, 0, 0)}) }},
		"length":       {8, true, func(a *testQP, m, to region) { w := sendOf(opSend, 0, m, 0, 5); w.body[4] = 6; a.push(w) }},
		"seven SGEs":   {8, true, func(a *testQP, m, to region) { a.push(wqe{opSend, 0, 7, slices.Repeat(body(0, 0), 15)}) }},
		"SGEs outside": {8, true, func(a *testQP, m, to region) { a.push(wqe{opSend, 0, 2, slices.Concat(body(0, 1), m.sge(0, 1))}) }},
		"much inline": {8, true, func(a *testQP, m, to region) {
			a.push(wqe{opSend, inline, 97, slices.Concat(body(0, 97), make([]byte, 100))})
		}},
		"atomic result": {8, true, func(a *testQP, m, to region) {
			w := atomicOf(opFetchAdd, 1, 0, to, m)
			w.body[48] = 4
			a.push(w)
		}},
		"read of another length": {8, true, func(a *testQP, m, to region) { w := readOf(opRead, 0, to, m, 1); w.body[32] = 2; a.push(w) }},
		"index": {8, true, func(a *testQP, m, to region) {
			a.push(sendOf(opSend, 0, m, 0, 1))
			a.r.bytes(a.sq, 1)[0]++
		}},
		"QP": {8, true, func(a *testQP, m, to region) {
			a.push(sendOf(opSend, 0, m, 0, 1))
			a.r.bytes(a.sq, 8)[4]++
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newPair(t)
			a.r.tolerant = tc.wrong
			m, to := a.r.reg(localRead), b.r.reg(allRights)
			a.recv(m, 0, 1)
			b.recv(to, 0, 100)
			b.push(sendOf(opSend, 0, to, 0, 1)) // not rung
			tc.post(a, m, to)
			second := uint32(a.sendPI)
			a.push(sendOf(opSend, 0, m, 0, 1))
			a.ring()
			c := a.cq.poll()
			if c == nil || c.status != tc.want || c.index != 0 {
				t.Errorf("completion = %+v, want status %d", c, tc.want)
			}
			want(t, a, completion{opcode: opSend, status: statusFlushed, index: second})
			want(t, a, completion{queue: queueReceive, opcode: opReceive, status: statusFlushed})
			want(t, b, completion{queue: queueReceive, opcode: opReceive, status: statusFlushed})
			if c := b.cq.poll(); c != nil {
				t.Errorf("completion of a request without a doorbell = %+v, want none", c)
			}
			wantEvent(t, a, eventQPFatal)
			wantEvent(t, b, eventQPFatal)
			if n := len(a.r.violated()); (n > 0) != tc.wrong {
				t.Errorf("%d violations, want some: %v", n, tc.wrong)
			}
		})
	}
}

// TestRemoteErrors checks the failure of a request at the peer.
func TestRemoteErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		event uint8
		want  status // of the receive, or 0 if there is none.
		post  func(a, b *testQP, m, to region)
	}{
		"no receive":                   {eventReceive, 0, func(a, b *testQP, m, to region) { a.post(sendOf(opSend, 0, m, 0, 1)) }},
		"no receive of immediate data": {eventReceive, 0, func(a, b *testQP, m, to region) { a.post(writeOf(opWriteImm, 0, m, to, 1)) }},
		"WRITE without right": {eventAccess, 0, func(a, b *testQP, m, to region) {
			to.key = b.r.regMR(mrNormal, localWrite|remoteRead, 1, to.addr, pageSize, 12<<27|1, []uint64{to.addr})
			a.post(writeOf(opWrite, 0, m, to, 1))
		}},
		"READ of no key":           {eventAccess, 0, func(a, b *testQP, m, to region) { a.post(readOf(opRead, 0, region{to.key + 1, to.addr}, m, 1)) }},
		"READ of the local key":    {eventAccess, 0, func(a, b *testQP, m, to region) { a.post(readOf(opRead, 0, region{localKey, to.addr}, m, 1)) }},
		"atomic at an odd address": {eventAccess, 0, func(a, b *testQP, m, to region) { a.post(atomicOf(opFetchAdd, 1, 0, region{to.key, to.addr + 4}, m)) }},
		"long message": {eventAccess, 4, func(a, b *testQP, m, to region) {
			b.recv(to, 0, 9)
			a.post(sendOf(opSend, 0, m, 0, 10))
		}},
		"receive with a wrong key": {eventAccess, 3, func(a, b *testQP, m, to region) {
			b.recv(region{to.key + 1, to.addr}, 0, 9)
			a.post(sendOf(opSend, 0, m, 0, 9))
		}},
		"key that cannot be invalidated": {eventAccess, 5, func(a, b *testQP, m, to region) {
			b.recv(to, 0, 9)
			a.post(sendOf(opSendInv, to.key, m, 0, 9))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newPair(t)
			m, to := a.r.reg(allRights), b.r.reg(allRights)
			tc.post(a, b, m, to)
			if c := a.cq.poll(); c == nil || c.status != statusGeneral || c.index != 0 {
				t.Errorf("completion = %+v, want a general error", c)
			}
			if tc.want != 0 {
				want(t, b, completion{queue: queueReceive, opcode: opReceive, status: tc.want})
			}
			wantEvent(t, a, eventQPFatal)
			wantEvent(t, b, tc.event)
			// The driver still closes both ends. There is nothing more to flush.
			for _, q := range []*testQP{a, b} {
				if st := q.modify(stateClosing, 0, endpoints{}); st != statusOK {
					t.Errorf("modify(QP %#x, CLOSING) = %d, want 0", q.n, st)
				}
				if c := q.cq.poll(); c != nil {
					t.Errorf("completion of QP %#x = %+v, want none", q.n, c)
				}
			}
		})
	}
}

// TestClose closes one end. The other end stops, and is flushed when the driver closes it.
func TestClose(t *testing.T) {
	a, b := newPair(t)
	m := b.r.reg(allRights)
	b.recv(m, 0, 1)
	if st := a.modify(stateClosing, 0, endpoints{}); st != statusOK {
		t.Fatalf("modify(a, CLOSING) = %d, want 0", st)
	}
	b.post(sendOf(opSend, 0, m, 0, 1))
	if c := b.cq.poll(); c != nil {
		t.Errorf("completion after the peer has closed = %+v, want none", c)
	}
	if st := b.modify(stateError, 0, endpoints{}); st != statusOK {
		t.Fatalf("modify(b, ERROR) = %d, want 0", st)
	}
	want(t, b, completion{opcode: opSend, status: statusFlushed})
	want(t, b, completion{queue: queueReceive, opcode: opReceive, status: statusFlushed})

	// Later requests are only completed by REFLUSH.
	b.recv(m, 0, 1)
	b.post(sendOf(opSend, 0, m, 0, 1))
	if c := b.cq.poll(); c != nil {
		t.Errorf("completion after the flush = %+v, want none", c)
	}
	b.r.must(0, 6, func(in []byte) {
		le.PutUint32(in[8:], b.n)
		le.PutUint32(in[12:], uint32(b.sendPI))
		le.PutUint32(in[16:], uint32(b.receivePI))
	})
	want(t, b, completion{opcode: opSend, status: statusFlushed, index: 1})
	want(t, b, completion{queue: queueReceive, opcode: opReceive, status: statusFlushed, index: 1})

	// The endpoints can be used again.
	c, d := a.r.newQP(8), b.r.newQP(9)
	port--
	connect(t, c, d)
	if _, _, ok := a.r.event(); ok {
		t.Error("closing caused an event")
	}
}

// TestArm checks for which completions an armed queue has an event.
func TestArm(t *testing.T) {
	a, b := newPair(t)
	m, to := a.r.reg(localRead), b.r.reg(allRights)
	send := func(flags uint64) {
		b.recv(to, 0, 1)
		w := sendOf(opSend, 0, m, 0, 1)
		w.flags |= flags
		a.post(w)
	}
	step := func(what string, event bool) {
		t.Helper()
		if n := b.r.completionEvent(); (n == b.cq.n) != event || n != 0 && !event {
			t.Errorf("%s: event of CQ %#x, want one: %v", what, n, event)
		}
	}
	send(0)
	step("not armed", false)
	b.cq.arm(false)
	step("armed with a completion", true)
	send(0)
	step("armed once", false)
	b.cq.ci += 2
	b.cq.arm(false)
	step("armed without a completion", false)
	send(0)
	step("armed", true)
	b.cq.ci++
	b.cq.arm(true)
	send(0)
	step("armed for solicited completions", false)
	send(solicited)
	step("solicited completion", true)
	b.cq.arm(true)
	step("armed with a solicited completion", true)
	b.cq.ci += 2
	b.cq.arm(false)
	b.cq.arm(true)
	send(0)
	step("armed for any completion, then for solicited ones", true)
	if !slices.Contains(b.r.vectors, 1) {
		t.Errorf("vectors = %v, want 1", b.r.vectors)
	}
}

// TestIndexWrap sends more events and completions than the driver's index of an event queue can
// count.
func TestIndexWrap(t *testing.T) {
	a, b := newPair(t)
	m, to := a.r.reg(localRead), b.r.reg(allRights)
	for i := range 1<<16 + 10 {
		b.cq.arm(false)
		b.recv(to, 0, 1)
		a.post(sendOf(opSend, 0, m, 0, 1))
		if x, y := a.cq.poll(), b.cq.poll(); x == nil || y == nil || b.r.completionEvent() != b.cq.n {
			t.Fatalf("message %d: completions %+v, %+v, or no event", i, x, y)
		}
	}
}
