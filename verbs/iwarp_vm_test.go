// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestIWARPWrongMemory is TestVMWrongMemory for iWARP. On iWARP, a WRITE completes when it is
// sent, and a peer that refuses a request ends the connection. A request without the access
// right must have no effect, and both QPs must fail. An event informs the peer, unless a WRITE
// has named unregistered memory of siw. All events of erdma are QP_FATAL (erdma_aeq_event_handler).
func TestIWARPWrongMemory(t *testing.T) {
	const size = 8192
	erdma := vmtest.Driver() == "erdma"
	access, request := []verbs.AsyncEventType{verbs.AsyncQPAccessErr}, []verbs.AsyncEventType{verbs.AsyncQPReqErr}
	for _, c := range []struct {
		name   string
		op     verbs.SendOpcode
		access verbs.Access // of the peer's memory
		off    int
		key    uint32 // error in the key
		n      int
		done   bool // siw executes it nevertheless
		told   []verbs.AsyncEventType
	}{
		{"wrong rkey of a write", verbs.OpWrite, everything, 0, 0x1234, 8, false, nil},
		{"write beyond the end", verbs.OpWrite, everything, size - 4, 0, 8, false, access},
		{"long write beyond the end", verbs.OpWrite, everything, size - 1000, 0, 4000, false, access},
		{"write before the start", verbs.OpWrite, everything, -1, 0, 8, false, access},
		{"write without the right", verbs.OpWrite, verbs.LocalWrite | verbs.RemoteRead, 0, 0, 8, false, access},
		{"wrong rkey of a read", verbs.OpRead, everything, 0, 0x1234, 8, false, request},
		{"read beyond the end", verbs.OpRead, everything, size - 4, 0, 8, false, request},
		{"read before the start", verbs.OpRead, everything, -1, 0, 8, false, request},
		// docs/reference/driver-faults.md
		{"read without the right", verbs.OpRead, verbs.LocalWrite, 0, 0, 8, true, nil},
	} {
		if erdma {
			c.done, c.told = false, []verbs.AsyncEventType{verbs.AsyncQPFatal}
		}
		t.Run(c.name, func(t *testing.T) {
			l, r := vmWire(t).pair(t, verbs.QPCap{})
			access := c.access &^ verbs.RemoteAtomic
			mr, err := r.pd.Alloc(size, access)
			if err != nil {
				t.Fatalf("PD.Alloc: %v", err)
			}
			closer(t, mr)
			before := bytes.Clone(fill(mr.Bytes(), 5))
			here := bytes.Clone(fill(l.buf.Bytes()[:c.n], 77))
			wr := verbs.SendWR{ID: 1, Opcode: c.op, Flags: verbs.SendSignaled, RemoteAddr: mr.Addr() + uint64(c.off), RKey: mr.RKey() ^ c.key, SGList: []verbs.SGE{l.buf.Slice(0, c.n)}}
			events := r.watch(t)
			l.send(t, wr)
			wc := l.collect(t, 1)[1]
			if c.op == verbs.OpRead && (wc.Status == verbs.WCSuccess) != c.done {
				t.Errorf("status of the READ = %v, want success %v", wc.Status, c.done)
			}
			if c.done {
				return
			}
			bothFail(t, l, r)
			for _, typ := range c.told {
				if ev := expect(t, events, typ); ev.QP != r.qp {
					t.Errorf("event = %+v, want one of QP %p", ev, r.qp)
				}
			}
			unexpected(t, events)
			// A message that exceeds the region may have been written up to the region's end.
			same := len(before)
			if c.op == verbs.OpWrite && c.off > 0 {
				same = c.off
			}
			if !bytes.Equal(mr.Bytes()[:same], before[:same]) {
				t.Error("the peer's memory changed")
			}
			if c.op == verbs.OpRead && !bytes.Equal(l.buf.Bytes()[:c.n], here) {
				t.Error("the READ changed the local memory")
			}
		})
	}
}

// bothFail waits until both QPs of a connection are in the error state.
func bothFail(t *testing.T, l, r *end) {
	t.Helper()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		a, err1 := l.qp.Query()
		b, err2 := r.qp.Query()
		if err1 != nil || err2 != nil {
			t.Fatalf("QP.Query = %v and %v, want nil", err1, err2)
		}
		if a.State == verbs.QPErr && b.State == verbs.QPErr {
			return
		}
		if time.Since(start) > 10*time.Second {
			t.Fatalf("states = %v, %v, want ERR after 10 seconds", a.State, b.State)
		}
	}
}

// TestIWARPWrongLocalMemory names local memory that is unregistered or lacks the access right.
// The request fails with the driver's status and an event. The connection ends, and all other requests
// on it are flushed. Another connection keeps working.
func TestIWARPWrongLocalMemory(t *testing.T) {
	rt := vmWire(t)
	a, b := rt.pair(t, verbs.QPCap{})
	erdma := vmtest.Driver() == "erdma"
	sent := verbs.WCSuccess // the status of a SEND that the peer's receive cannot take
	if erdma {
		sent = verbs.WCGeneralErr
	}
	for _, k := range []struct {
		name   string
		op     verbs.SendOpcode
		status verbs.WCStatus // docs/reference/driver-faults.md
		event  verbs.AsyncEventType
	}{
		{"SEND", verbs.OpSend, verbs.WCLocQPOpErr, verbs.AsyncQPFatal},
		{"WRITE", verbs.OpWrite, verbs.WCLocQPOpErr, verbs.AsyncQPFatal},
		{"READ", verbs.OpRead, verbs.WCLocProtErr, verbs.AsyncQPAccessErr},
		{"receive", verbs.OpSend, verbs.WCGeneralErr, verbs.AsyncQPAccessErr},
	} {
		switch {
		case erdma && k.name == "receive":
			k.status, k.event = verbs.WCRemAccessErr, verbs.AsyncQPFatal
		case erdma:
			k.status, k.event = verbs.WCLocAccessErr, verbs.AsyncQPFatal
		}
		for _, m := range []struct {
			name string
			sge  func(own, strange, ro *verbs.MR) verbs.SGE
		}{
			{"wrong lkey", func(own, _, _ *verbs.MR) verbs.SGE {
				s := own.Slice(0, 8)
				s.LKey ^= 0x1234
				return s
			}},
			{"beyond the end", func(own, _, _ *verbs.MR) verbs.SGE {
				s := own.Slice(0, 8)
				s.Addr += uint64(own.Len()) - 4
				return s
			}},
			{"memory of another PD", func(_, strange, _ *verbs.MR) verbs.SGE { return strange.Slice(0, 8) }},
			{"memory without the right", func(_, _, ro *verbs.MR) verbs.SGE { return ro.Slice(0, 8) }},
		} {
			if m.name == "memory without the right" && (k.name == "SEND" || k.name == "WRITE") {
				continue // SEND and WRITE need no access right for local memory
			}
			t.Run(fmt.Sprint(k.name, " ", m.name), func(t *testing.T) {
				l, r := rt.pair(t, verbs.QPCap{})
				at, id, others := l, uint64(1), 1 // the end with the wrong request, its ID, and the number of the peer's completions
				if k.name == "receive" {
					at, id, others = r, 9, 2
				}
				strange, err := allocPD(t, at.dev).Alloc(4096, everything)
				if err != nil {
					t.Fatalf("PD.Alloc: %v", err)
				}
				closer(t, strange)
				ro, err := at.pd.Alloc(4096, 0)
				if err != nil {
					t.Fatalf("PD.Alloc: %v", err)
				}
				closer(t, ro)
				events := at.watch(t)
				sge := m.sge(at.buf, strange, ro)
				wr := verbs.SendWR{ID: 1, Opcode: k.op, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{sge}}
				if at == r {
					r.recv(t, verbs.RecvWR{ID: 9, SGList: []verbs.SGE{sge}})
					wr.SGList[0] = l.buf.Slice(0, 8)
				}
				l.recv(t, verbs.RecvWR{ID: 5})
				r.recv(t, verbs.RecvWR{ID: 5})
				l.send(t, wr)
				got := map[*end]map[uint64]verbs.WC{l: l.collect(t, 2), r: r.collect(t, others)}
				if wc := got[at][id]; wc.Status != k.status {
					t.Errorf("status of the request = %v, want %v", wc.Status, k.status)
				}
				if wc := got[l][1]; at == r && wc.Status != sent {
					t.Errorf("status of the SEND = %v, want %v", wc.Status, sent)
				}
				if ev := expect(t, events, k.event); ev.QP != at.qp {
					t.Errorf("event = %+v, want one of QP %p", ev, at.qp)
				}
				bothFail(t, l, r)
				for _, e := range []*end{l, r} {
					if wc := got[e][5]; wc.Status != verbs.WCWRFlushErr {
						t.Errorf("status of the receive = %v, want WCWRFlushErr", wc.Status)
					}
					e.send(t, verbs.SendWR{ID: 2, Opcode: verbs.OpSend})
					if wc := e.collect(t, 1)[2]; wc.Status != verbs.WCWRFlushErr {
						t.Errorf("status of a later SEND = %v, want WCWRFlushErr", wc.Status)
					}
				}
				b.recv(t, verbs.RecvWR{ID: 7})
				a.send(t, verbs.SendWR{ID: 3, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
				a.ok(t, 1)
				b.ok(t, 1)
			})
		}
	}
}

// TestIWARPDrained checks that requests behind a READ that the peer refuses are flushed with
// it, and that an event reports the empty queue.
func TestIWARPDrained(t *testing.T) {
	l, r := vmWire(t).pair(t, verbs.QPCap{})
	events := l.watch(t)
	write := verbs.SendWR{ID: 2, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled | verbs.SendFence, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 8)}}
	read, last := write, write
	read.ID, read.Opcode, read.Flags, read.RKey = 1, verbs.OpRead, verbs.SendSignaled, r.buf.RKey()^0x1234
	last.ID = 3
	l.send(t, read, write, last)
	for id, wc := range l.collect(t, 3) {
		if wc.Status != verbs.WCWRFlushErr {
			t.Errorf("status of request %d = %v, want WCWRFlushErr", id, wc.Status)
		}
	}
	if ev := expect(t, events, verbs.AsyncSQDrained); ev.QP != l.qp {
		t.Errorf("event = %+v, want one of QP %p", ev, l.qp)
	}
}

// TestIWARPSendInv checks that a SEND_WITH_INV invalidates a key of the receiver. Up to Linux
// 7.3, siw does not report the key to programs.
func TestIWARPSendInv(t *testing.T) {
	l, r := vmWire(t).pair(t, verbs.QPCap{})
	mr, err := r.pd.Alloc(4096, everything)
	if err != nil {
		t.Fatalf("PD.Alloc: %v", err)
	}
	closer(t, mr)
	r.recv(t, verbs.RecvWR{ID: 5, SGList: []verbs.SGE{r.buf.Slice(0, 8)}})
	l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSendInv, Flags: verbs.SendSignaled, InvalidateRKey: mr.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 8)}})
	l.ok(t, 1)
	switch wc := r.ok(t, 1)[5]; {
	case wc.Flags&verbs.WCWithInv == 0 && wc.InvalidatedRKey == 0:
		t.Log("the completion does not contain the invalidated key, see docs/reference/driver-faults.md")
	case wc.Flags&verbs.WCWithInv == 0 || wc.InvalidatedRKey != mr.RKey():
		t.Errorf("completion of the receive = %+v, want key %#x", wc, mr.RKey())
	}
	r.send(t, verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.Slice(0, 8)}})
	if wc := r.collect(t, 1)[2]; wc.Status == verbs.WCSuccess {
		t.Errorf("status of a send of memory with an invalidated key = %v, want an error", wc.Status)
	}
}

// TestIWARPRefusals requests features that devices of iWARP do not have. Only siw has shared receive queues.
func TestIWARPRefusals(t *testing.T) {
	e := newEnd(t, verbs.DefaultHost(), vmtest.Hosts(t, 1)[0], verbs.QPCap{})
	shared := func() error { _, err := e.pd.CreateSRQ(verbs.SRQConfig{}); return err }
	if vmtest.Driver() == "siw" {
		srq, err := e.pd.CreateSRQ(verbs.SRQConfig{})
		if err != nil {
			t.Fatalf("PD.CreateSRQ: %v", err)
		}
		closer(t, srq)
		shared = func() error { return srq.Modify(verbs.SRQAttr{MaxWR: 500}, verbs.SRQAttrMaxWR) }
	}
	for _, c := range []struct {
		what string
		want error
		do   func() error
	}{
		{"another size of a CQ", errors.ErrUnsupported, func() error { return e.cq.Resize(500) }},
		{"moderation of a CQ", errors.ErrUnsupported, func() error { return e.cq.Moderate(10, 0) }},
		{"an SRQ, or another size of one", errors.ErrUnsupported, shared},
		{"window of type 1", errors.ErrUnsupported, func() error { _, err := e.pd.AllocMW(verbs.MWType1); return err }},
		{"window of type 2", errors.ErrUnsupported, func() error { _, err := e.pd.AllocMW(verbs.MWType2); return err }},
		// It takes a UD QP, which iWARP does not have.
		{"multicast", syscall.EINVAL, func() error { return e.qp.AttachMulticast(verbs.GID{0: 0xff}, 0) }},
	} {
		var op *verbs.OpError
		if err := c.do(); !errors.As(err, &op) || !errors.Is(err, c.want) {
			t.Errorf("%s = %v, want an OpError of %v", c.what, err, c.want)
		}
	}
}

// TestIWARPClosing checks the state SQD, in which a connection ends in order. Messages in
// progress arrive, receives are flushed, no more messages are sent, and the QP cannot leave the
// state.
func TestIWARPClosing(t *testing.T) {
	l, r := vmWire(t).pair(t, verbs.QPCap{})
	r.recv(t, verbs.RecvWR{ID: 7, SGList: []verbs.SGE{r.buf.Slice(0, 8)}})
	l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{l.buf.Slice(0, 8)}})
	l.ok(t, 1)
	r.ok(t, 1)
	for _, e := range []*end{l, r} {
		e.recv(t, verbs.RecvWR{ID: 5, SGList: []verbs.SGE{e.buf.Slice(0, 8)}})
	}
	modify(t, l.qp, verbs.QPAttr{State: verbs.QPSQD}, verbs.QPAttrState)
	for _, e := range []*end{l, r} {
		if wc := e.collect(t, 1)[5]; wc.Status != verbs.WCWRFlushErr {
			t.Errorf("status of the receive = %v, want WCWRFlushErr", wc.Status)
		}
	}
	// The event of the disconnection may have arrived by now. The QP then moves to the error
	// state.
	if a, err := l.qp.Query(); err != nil || a.State != verbs.QPSQD && a.State != verbs.QPErr {
		t.Errorf("Query = %v, %v, want SQD or ERR", a.State, err)
	}
	var state *verbs.QPStateError
	switch n, err := l.qp.PostSend([]verbs.SendWR{{ID: 9, Opcode: verbs.OpSend}}); {
	case n == 1 && err == nil:
		if wc := l.collect(t, 1)[9]; wc.Status != verbs.WCWRFlushErr {
			t.Errorf("status of a SEND = %v, want WCWRFlushErr", wc.Status)
		}
	case n != 0 || !errors.As(err, &state) || state.State != verbs.QPSQD:
		t.Errorf("PostSend = %d, %v, want a QPStateError of SQD", n, err)
	}
	if err := l.qp.Modify(&verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Modify to RTS = %v, want EINVAL", err)
	}
	modify(t, l.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
}
