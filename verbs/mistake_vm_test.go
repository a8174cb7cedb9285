// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// wrong holds the expected statuses of an invalid request.
type wrong struct {
	spec, rxe, newer verbs.WCStatus // the status of the specification, of rxe, and of rxe since Linux 6.4
}

// check expects the status of the specification, or the status that the driver is known to
// return instead (docs/reference/driver-faults.md).
func (w wrong) check(t *testing.T, whose string, got verbs.WCStatus) {
	t.Helper()
	known := w.spec
	if vmtest.Driver() == "rxe" {
		if known = w.rxe; linuxSince(t, 6, 4) {
			known = w.newer
		}
	}
	if got != w.spec && got != known {
		t.Errorf("status of the %s = %v, want %v or %v", whose, got, w.spec, known)
	}
}

var (
	refusedByPeer = wrong{verbs.WCRemAccessErr, verbs.WCRemAccessErr, verbs.WCRemAccessErr}
	ownMemory     = wrong{verbs.WCLocProtErr, verbs.WCLocQPOpErr, verbs.WCWRFlushErr}
	ownBounds     = wrong{verbs.WCLocProtErr, verbs.WCLocProtErr, verbs.WCWRFlushErr}
	ownReceive    = wrong{verbs.WCLocProtErr, verbs.WCLocQPOpErr, verbs.WCLocQPOpErr}
	peersReceive  = wrong{verbs.WCRemOpErr, verbs.WCRemOpErr, verbs.WCRemOpErr}
	shortReceive  = wrong{verbs.WCLocLenErr, verbs.WCLocQPOpErr, verbs.WCLocQPOpErr}
	tooLong       = wrong{verbs.WCRemInvReqErr, verbs.WCRemOpErr, verbs.WCRemOpErr}
)

// TestVMWrongMemory names memory that is unregistered or lacks an access right. The status must
// identify the side with the error, as far as the driver does this. An event informs the peer
// that a request has named its memory (C9-222.1 of the IBTA specification). rxe has this event
// since Linux 7.
func TestVMWrongMemory(t *testing.T) {
	type mistake struct {
		name      string
		wr        func(l, r *end, ro *verbs.MR) verbs.SendWR
		recv      func(r *end, ro *verbs.MR) []verbs.SGE // nil for no receive
		sender    wrong
		recipient wrong
	}
	write := func(l *end, addr uint64, key uint32, n int) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: addr, RKey: key, SGList: []verbs.SGE{l.buf.Slice(0, n)}}
	}
	send := func(l *end, n int) verbs.SendWR {
		return verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, n)}}
	}
	atomic := func(l *end, op verbs.SendOpcode, addr uint64, key uint32) verbs.SendWR {
		return verbs.SendWR{Opcode: op, RemoteAddr: addr, RKey: key, SGList: []verbs.SGE{l.buf.Slice(0, 8)}}
	}
	for _, m := range []mistake{
		{name: "wrong rkey of a write", sender: refusedByPeer,
			wr: func(l, r *end, _ *verbs.MR) verbs.SendWR { return write(l, r.buf.Addr(), r.buf.RKey()^0x1234, 8) }},
		{name: "write beyond the end", sender: refusedByPeer,
			wr: func(l, r *end, _ *verbs.MR) verbs.SendWR {
				return write(l, r.buf.Addr()+uint64(r.buf.Len())-4, r.buf.RKey(), 8)
			}},
		{name: "write before the start", sender: refusedByPeer,
			wr: func(l, r *end, _ *verbs.MR) verbs.SendWR { return write(l, r.buf.Addr()-1, r.buf.RKey(), 8) }},
		{name: "write without the right", sender: refusedByPeer,
			wr: func(l, r *end, ro *verbs.MR) verbs.SendWR { return write(l, ro.Addr(), ro.RKey(), 8) }},
		{name: "read without the right", sender: refusedByPeer,
			wr: func(l, r *end, ro *verbs.MR) verbs.SendWR {
				return verbs.SendWR{Opcode: verbs.OpRead, RemoteAddr: ro.Addr(), RKey: ro.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 8)}}
			}},
		{name: "wrong rkey of a read", sender: refusedByPeer,
			wr: func(l, r *end, _ *verbs.MR) verbs.SendWR {
				return verbs.SendWR{Opcode: verbs.OpRead, RemoteAddr: r.buf.Addr(), RKey: 1, SGList: []verbs.SGE{l.buf.Slice(0, 8)}}
			}},
		{name: "atomic without the right", sender: refusedByPeer,
			wr: func(l, r *end, ro *verbs.MR) verbs.SendWR { return atomic(l, verbs.OpFetchAdd, ro.Addr(), ro.RKey()) }},
		{name: "wrong rkey of an atomic", sender: refusedByPeer,
			wr: func(l, r *end, ro *verbs.MR) verbs.SendWR { return atomic(l, verbs.OpCompareSwap, r.buf.Addr(), 1) }},
		{name: "wrong lkey", sender: ownMemory,
			wr: func(l, r *end, _ *verbs.MR) verbs.SendWR {
				wr := write(l, r.buf.Addr(), r.buf.RKey(), 8)
				wr.SGList[0].LKey ^= 0x1234
				return wr
			}},
		{name: "local memory beyond the end", sender: ownBounds,
			wr: func(l, r *end, _ *verbs.MR) verbs.SendWR {
				wr := write(l, r.buf.Addr(), r.buf.RKey(), 8)
				wr.SGList[0].Addr += uint64(l.buf.Len())
				return wr
			}},
		{name: "memory of another PD", sender: ownMemory,
			wr: func(l, r *end, _ *verbs.MR) verbs.SendWR {
				return verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{r.buf.Slice(0, 8)}}
			}},
		{name: "receive into memory without the right", sender: peersReceive, recipient: ownReceive,
			// This is more data than mlx5 puts into a completion. The sender of a shorter
			// message gets no error, because the device does not write to the memory.
			wr:   func(l, r *end, _ *verbs.MR) verbs.SendWR { return send(l, 80) },
			recv: func(r *end, ro *verbs.MR) []verbs.SGE { return []verbs.SGE{ro.Slice(0, 80)} }},
		{name: "receive that is too short", sender: tooLong, recipient: shortReceive,
			wr:   func(l, r *end, _ *verbs.MR) verbs.SendWR { return send(l, 80) },
			recv: func(r *end, ro *verbs.MR) []verbs.SGE { return []verbs.SGE{r.buf.Slice(0, 64)} }},
	} {
		t.Run(m.name, func(t *testing.T) {
			rt := vmWire(t)
			l, r := rt.pair(t, verbs.QPCap{})
			events := r.watch(t)
			ro, err := r.pd.Alloc(4096, 0)
			if err != nil {
				t.Fatalf("PD.Alloc: %v", err)
			}
			closer(t, ro)
			if m.recv != nil {
				r.recv(t, verbs.RecvWR{ID: 9, SGList: m.recv(r, ro)})
			}
			wr := m.wr(l, r, ro)
			wr.ID, wr.Flags = 1, verbs.SendSignaled
			l.send(t, wr)
			m.sender.check(t, "sender", l.collect(t, 1)[1].Status)
			if m.recv != nil {
				m.recipient.check(t, "recipient", r.collect(t, 1)[9].Status)
			}
			refused := m.sender == refusedByPeer
			if told := vmtest.Driver() != "rxe" || linuxSince(t, 7, 0); refused && told {
				if ev := expect(t, events, verbs.AsyncQPAccessErr); ev.QP != r.qp {
					t.Errorf("event = %+v, want one of QP %p", ev, r.qp)
				}
			} else if refused || vmtest.Driver() == "rxe" {
				unexpected(t, events)
			}
			// The device has moved the QP, which Query detects.
			if l.qp.State() != verbs.QPRTS {
				t.Errorf("State() before Query = %v, want RTS", l.qp.State())
			}
			if a, err := l.qp.Query(); err != nil || a.State != verbs.QPErr || l.qp.State() != verbs.QPErr {
				t.Errorf("State(), Query = %v, %v, %v, want ERR", l.qp.State(), a.State, err)
			}
			// The process continues, and the same QP works after a reset.
			for _, e := range []*end{l, r} {
				e.reset(t)
			}
			l.connectTo(t, r)
			r.connectTo(t, l)
			l.send(t, verbs.SendWR{ID: 2, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), InlineData: []byte("x")})
			l.ok(t, 1)
		})
	}
}

// TestVMNoAnswer checks that a request to a QP that does not exist fails after the retries. On
// rxe, 7 retries never end.
func TestVMNoAnswer(t *testing.T) {
	rt := vmWire(t)
	l, r := newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEnd(t, rt.h, rt.b, verbs.QPCap{})
	l.connectTo(t, r)
	// The transition to RTS sets a smaller number of retries.
	modify(t, l.qp, verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState)
	modify(t, l.qp, verbs.QPAttr{State: verbs.QPInit, Port: 1, Access: everything}, verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrAccess)
	modify(t, l.qp, verbs.QPAttr{State: verbs.QPRTR, PathMTU: verbs.MTU1024, DestQPNum: r.qp.Num(), RQPSN: r.psn(), MaxDestRdAtomic: 1, MinRNRTimer: 12, AH: l.to(r.gid)},
		verbs.QPAttrState|verbs.QPAttrAV|verbs.QPAttrPathMTU|verbs.QPAttrDestQPNum|verbs.QPAttrRQPSN|verbs.QPAttrMaxDestRdAtomic|verbs.QPAttrMinRNRTimer)
	modify(t, l.qp, verbs.QPAttr{State: verbs.QPRTS, Timeout: 12, RetryCount: 2, RNRRetryCount: 7, SQPSN: l.psn(), MaxRdAtomic: 1},
		verbs.QPAttrState|verbs.QPAttrTimeout|verbs.QPAttrRetryCount|verbs.QPAttrRNRRetryCount|verbs.QPAttrSQPSN|verbs.QPAttrMaxRdAtomic)
	if err := r.qp.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}, verbs.SendWR{ID: 2, Opcode: verbs.OpSend})
	got := l.collect(t, 2)
	if got[1].Status != verbs.WCRetryExcErr || got[2].Status != verbs.WCWRFlushErr {
		t.Errorf("completions = %+v, want WCRetryExcErr and WCWRFlushErr", got)
	}
}

// TestWrongRequests posts requests that are refused before the device reads them.
func TestWrongRequests(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		sge := l.buf.Slice(0, 8)
		many := make([]verbs.SGE, l.qp.Cap().SendSGE+1)
		huge := verbs.SGE{Length: 1<<32 - 1}
		for what, wr := range map[string]verbs.SendWR{
			"too many elements":      {Opcode: verbs.OpSend, SGList: many},
			"too much inline":        {Opcode: verbs.OpSend, InlineData: make([]byte, l.qp.Cap().Inline+1)},
			"inline read":            {Opcode: verbs.OpRead, InlineData: make([]byte, 8)},
			"unaligned fetch-add":    {Opcode: verbs.OpFetchAdd, RemoteAddr: r.buf.Addr() + 4, SGList: []verbs.SGE{sge}},
			"unaligned compare-swap": {Opcode: verbs.OpCompareSwap, RemoteAddr: r.buf.Addr() + 1, SGList: []verbs.SGE{sge}},
			"atomic of 16 bytes":     {Opcode: verbs.OpFetchAdd, RemoteAddr: r.buf.Addr(), SGList: []verbs.SGE{sge, sge}},
			"message of 8 GiB":       {Opcode: verbs.OpSend, SGList: []verbs.SGE{huge, huge}},
			"bind of nothing":        {Opcode: verbs.OpBindMW},
			"unknown operation":      {Opcode: 1 << 20},
			"operation of iWARP":     {Opcode: verbs.OpReadInv}, // on iWARP it has one element
		} {
			n, err := l.qp.PostSend([]verbs.SendWR{wr})
			if n != 0 || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EMSGSIZE) && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("PostSend of %s = %d, %v, want 0, EINVAL, EMSGSIZE or ErrUnsupported", what, n, err)
			}
		}
		for what, wr := range map[string]verbs.RecvWR{
			"too many elements": {SGList: make([]verbs.SGE, l.qp.Cap().RecvSGE+1)},
			"8 GiB":             {SGList: []verbs.SGE{huge, huge}},
		} {
			if n, err := l.qp.PostRecv([]verbs.RecvWR{wr}); n != 0 || !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EMSGSIZE) {
				t.Errorf("PostRecv of %s = %d, %v, want 0, EINVAL or EMSGSIZE", what, n, err)
			}
		}
		// None of these requests is in the queue.
		l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{sge}})
		l.ok(t, 1)
		// The requests before an invalid one are posted.
		good := verbs.SendWR{ID: 2, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{sge}}
		if n, err := l.qp.PostSend([]verbs.SendWR{good, {Opcode: 1 << 20}, good}); n != 1 || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("PostSend of a valid, an invalid and a valid request = %d, %v, want 1, ErrUnsupported", n, err)
		}
		l.ok(t, 1)
	})
}

// TestUseAfterClose closes objects while other goroutines use them.
func TestUseAfterClose(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		for range 10 {
			// The CQ has room for all requests of both full queues, which Close flushes,
			// whatever sizes the driver chose.
			l, r := rt.pair(t, verbs.QPCap{SendWR: 16, RecvWR: 16})
			if c := l.qp.Cap(); c.SendWR+c.RecvWR > l.cq.Entries() {
				t.Fatalf("queues of %+v on a CQ of %d entries, want at most as many requests", c, l.cq.Entries())
			}
			var users sync.WaitGroup
			start := make(chan struct{})
			use := func(f func() error) {
				users.Add(1)
				go func() {
					defer users.Done()
					<-start
					for {
						err := f()
						if errors.Is(err, net.ErrClosed) {
							return
						}
						if err != nil && !errors.Is(err, verbs.ErrFull) {
							t.Errorf("call during Close = %v, want nil, ErrFull or net.ErrClosed", err)
							return
						}
					}
				}()
			}
			wr := []verbs.SendWR{{Opcode: verbs.OpWrite, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 8)}}}
			use(func() error { _, err := l.qp.PostSend(wr); return err })
			use(func() error { _, err := l.qp.PostRecv([]verbs.RecvWR{{}}); return err })
			use(func() error { _, err := l.qp.Query(); return err })
			var b verbs.Batch
			b.Reset(l.qp)
			use(func() error { b.WriteInline(1, []byte("x"), r.buf.Remote(), 0); return b.Post() })
			wcs := make([]verbs.WC, 4)
			use(func() error { _, err := l.cq.Poll(wcs); return err })
			use(func() error { _, err := l.cq.Wait(context.Background(), make([]verbs.WC, 4)); return err })
			close(start)
			for range 2 {
				if err := l.qp.Close(); err != nil {
					t.Fatalf("QP.Close: %v", err)
				}
			}
			for range 2 {
				if err := l.cq.Close(); err != nil {
					t.Fatalf("CQ.Close: %v", err)
				}
			}
			users.Wait()
			if err := l.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState); !errors.Is(err, net.ErrClosed) {
				t.Errorf("QP.Modify = %v, want net.ErrClosed", err)
			}
			if err := l.qp.AttachMulticast(verbs.GID{0: 0xff}, 0); !errors.Is(err, net.ErrClosed) {
				t.Errorf("QP.AttachMulticast = %v, want net.ErrClosed", err)
			}
		}
	})
}
