// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/internal/lograte"
	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/uverbs"
)

// impossible is an invalid completion.
type impossible struct {
	names string // the QP that it names: "q", "onSRQ" or none
	cqe   func(r *skipRig) *mlx5test.CQE
}

var impossibles = map[string]impossible{
	"unknown opcode": {"q", func(r *skipRig) *mlx5test.CQE {
		return &mlx5test.CQE{Opcode: 7, UserIndex: r.q.index, QPN: r.q.num}
	}},
	"no packet": {"q", func(r *skipRig) *mlx5test.CQE {
		return &mlx5test.CQE{Opcode: 6, UserIndex: r.q.index, QPN: r.q.num}
	}},
	"signature error": {"", func(r *skipRig) *mlx5test.CQE { // has a different layout
		return &mlx5test.CQE{Opcode: 12, UserIndex: r.q.index, QPN: 0x123}
	}},
	"end of a resize":          {"", func(r *skipRig) *mlx5test.CQE { return &mlx5test.CQE{Opcode: 5, UserIndex: r.q.index} }},
	"user index of nobody":     {"", func(r *skipRig) *mlx5test.CQE { return &mlx5test.CQE{UserIndex: 0xffffff, QPN: r.q.num} }},
	"failed request of nobody": {"", func(r *skipRig) *mlx5test.CQE { return &mlx5test.CQE{Opcode: 13, UserIndex: 0x1000} }},
	"request after the last":   {"q", func(r *skipRig) *mlx5test.CQE { return r.q.sendCQE(2, opcodeSend) }},
	"request before the first": {"q", func(r *skipRig) *mlx5test.CQE { return r.q.sendCQE(0xffff, opcodeSend) }},
	"failed request that was not posted": {"q", func(r *skipRig) *mlx5test.CQE {
		return &mlx5test.CQE{Opcode: 13, UserIndex: r.q.index, WQECounter: 5}
	}},
	"receive after the last":     {"q", func(r *skipRig) *mlx5test.CQE { return r.q.recvCQE(2) }},
	"receive out of order":       {"q", func(r *skipRig) *mlx5test.CQE { return r.q.recvCQE(1) }},
	"receive before the first":   {"q", func(r *skipRig) *mlx5test.CQE { return r.q.recvCQE(0xffff) }},
	"failed receive not posted":  {"q", func(r *skipRig) *mlx5test.CQE { return &mlx5test.CQE{Opcode: 14, UserIndex: r.q.index, WQECounter: 3} }},
	"free receive of an SRQ":     {"onSRQ", func(r *skipRig) *mlx5test.CQE { return r.onSRQ.recvCQE(3) }},
	"receive beyond an SRQ":      {"onSRQ", func(r *skipRig) *mlx5test.CQE { return r.onSRQ.recvCQE(0xffff) }},
	"receive just beyond an SRQ": {"onSRQ", func(r *skipRig) *mlx5test.CQE { return r.onSRQ.recvCQE(16) }},
	"page fault of no receive": {"onSRQ", func(r *skipRig) *mlx5test.CQE {
		return &mlx5test.CQE{Opcode: 14, UserIndex: r.onSRQ.index, Syndrome: 0x22, VendorSyndrome: 0x93, WQECounter: 5}
	}},
	"page fault beyond an SRQ": {"onSRQ", func(r *skipRig) *mlx5test.CQE {
		return &mlx5test.CQE{Opcode: 14, UserIndex: r.onSRQ.index, Syndrome: 0x22, VendorSyndrome: 0x93, WQECounter: 16}
	}},
	"compressed, unasked": {"q", func(r *skipRig) *mlx5test.CQE {
		return &mlx5test.CQE{Format: 3, UserIndex: r.q.index, ByteCount: 2}
	}},
}

// skipRig is a CQ with three QPs in RTS. Each QP has posted two sends. Each QP except onSRQ has
// posted two receives, and the SRQ has one.
type skipRig struct {
	*cqRig
	q, onSRQ, fair *QP
	woken          chan struct{} // gets a token for each call of CQConfig.Wake
}

func newSkipRig(t testing.TB, d Driver, opt *CQOptions) *skipRig {
	t.Helper()
	r := emptySkipRig(t, d, opt)
	for _, q := range []*QP{r.q, r.fair, r.onSRQ} {
		r.post(q)
	}
	r.postSRQ(r.onSRQ.srq, 1)
	return r
}

// emptySkipRig is newSkipRig without requests.
func emptySkipRig(t testing.TB, d Driver, opt *CQOptions) *skipRig {
	t.Helper()
	r := &skipRig{woken: make(chan struct{}, 16)}
	r.cqRig = newRigOf(t, d, provider.CQConfig{Entries: 31, Vendor: opt, Wake: r.wake})
	srq := r.srq(provider.SRQConfig{MaxWR: 4, MaxSGE: 1})
	for q, cfg := range map[**QP]provider.QPConfig{&r.q: {}, &r.fair: {}, &r.onSRQ: {SRQ: srq}} {
		*q, _ = r.madeQP(cfg)
	}
	return r
}

// wake implements CQConfig.Wake, which must not block.
func (r *skipRig) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// post posts sends 1 and 2, and posts receives 3 and 4 to a QP that has a receive queue.
func (r *skipRig) post(q *QP) {
	r.t.Helper()
	r.send(q, 1, 2)
	if q.srq != nil {
		return
	}
	if n, err := q.PostRecv([]provider.RecvWR{{ID: 3}, {ID: 4}}); n != 2 || err != nil {
		r.t.Fatalf("QP.PostRecv = %d, %v, want 2, nil", n, err)
	}
}

// ids returns the IDs and the statuses of completions, all of which must be of one QP.
func ids(t testing.TB, q *QP, wcs []provider.WC) (id []uint64, st []provider.WCStatus) {
	t.Helper()
	for _, wc := range wcs {
		if wc.QPNum != q.num {
			t.Errorf("completion = %+v, want QP %#x", wc, q.num)
		}
		id, st = append(id, wc.ID), append(st, wc.Status)
	}
	return id, st
}

// alive checks a QP by completing all its requests.
func (r *skipRig) alive(q *QP, base uint16) {
	r.t.Helper()
	r.put(q.sendCQE(base, opcodeSend), q.recvCQE(base), q.recvCQE(base+1), q.sendCQE(base+1, opcodeSend))
	id, st := ids(r.t, q, r.pollSome())
	if want := []uint64{1, 3, 4, 2}; !reflect.DeepEqual(id, want) || !reflect.DeepEqual(st, make([]provider.WCStatus, 4)) {
		r.t.Errorf("completions of QP %#x: %v, %v, want %v", q.num, id, st, want)
	}
}

// ended checks that a QP has failed, and that its outstanding requests completed.
func (r *skipRig) ended(q *QP) {
	r.t.Helper()
	<-r.woken
	id, st := ids(r.t, q, r.poll())
	wantID := []uint64{1, 2}
	wantSt := []provider.WCStatus{provider.WCFatalErr, provider.WCWRFlushErr}
	if q.srq == nil {
		wantID, wantSt = append(wantID, 3, 4), append(wantSt, wantSt...)
	}
	if !reflect.DeepEqual(id, wantID) || !reflect.DeepEqual(st, wantSt) {
		r.t.Errorf("completions of the failed QP: %v, %v, want %v, %v", id, st, wantID, wantSt)
	}
	attr, err := q.Query()
	if err != nil || attr.State != provider.QPErr || q.State() != provider.QPErr {
		r.t.Errorf("state of the failed QP: %v by Query (%v), %v by State, want ERR", attr.State, err, q.State())
	}
	var state *provider.QPStateError
	if n, err := q.PostSend([]provider.SendWR{{Opcode: provider.OpSend}}); n != 0 || !errors.As(err, &state) || state.State != provider.QPErr {
		r.t.Errorf("PostSend to the failed QP = %d, %v, want a StateError of ERR", n, err)
	}
	if n, err := q.PostRecv([]provider.RecvWR{{}}); q.srq == nil && (n != 0 || !errors.As(err, &state)) {
		r.t.Errorf("PostRecv to the failed QP = %d, %v, want a StateError", n, err)
	}
	q.SetState(provider.QPErr) // as after an event
	if n, _ := q.PostSend([]provider.SendWR{{Opcode: provider.OpSend}}); n != 0 {
		r.t.Error("PostSend to the failed QP after SetState succeeded")
	}
	if err := q.Modify(&provider.QPAttr{State: provider.QPErr}, provider.QPAttrState); err != nil {
		r.t.Errorf("Modify of the failed QP to ERR: %v", err)
	}
	anew := &provider.QPAttr{State: provider.QPInit, Port: 1}
	if err := q.Modify(anew, provider.QPAttrState|provider.QPAttrPKeyIndex|provider.QPAttrPort|provider.QPAttrAccess); !errors.As(err, &state) || q.State() != provider.QPErr {
		r.t.Errorf("Modify of the failed QP to INIT = %v in state %v, want a StateError in ERR", err, q.State())
	}
}

// waitEnded waits until no goroutine ends the QP.
func (r *skipRig) waitEnded(q *QP) {
	r.t.Helper()
	for q.failure.Load() == qpFailing {
		runtime.Gosched()
	}
	if _, err := q.Query(); err != nil { // waits until polls complete its requests
		r.t.Fatalf("QP.Query: %v", err)
	}
}

// reset resets a failed QP, which then works as a new one.
func (r *skipRig) reset(q *QP) {
	r.t.Helper()
	if err := q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
		r.t.Fatalf("QP.Modify: %v", err)
	}
	r.connect(q)
	r.post(q)
	if q.srq == nil {
		r.alive(q, 0)
	}
}

// TestSkipped polls each kind of invalid entry. No other QP loses a completion, and the QP that
// the entry names fails.
func TestSkipped(t *testing.T) {
	for name, tc := range impossibles {
		t.Run(name, func(t *testing.T) {
			r := newSkipRig(t, Driver{}, nil)
			r.put(tc.cqe(r))
			r.alive(r.fair, 0)
			if got := r.cq.Skipped(); got != 1 {
				t.Errorf("Skipped() = %d, want 1", got)
			}
			for q, name := range map[*QP]string{r.q: "q", r.onSRQ: "onSRQ", r.fair: "fair"} {
				if name == tc.names {
					r.ended(q)
					// Late completions of the QP belong to no request.
					r.put(q.sendCQE(0, opcodeSend))
					if wcs := r.poll(); len(wcs) != 0 || r.cq.Skipped() != 2 {
						t.Errorf("%d completions and Skipped() = %d after a late one, want 0 and 2", len(wcs), r.cq.Skipped())
					}
					r.reset(q)
				} else if q.failure.Load() != qpSound {
					t.Errorf("the QP fails after %s", name)
				}
			}
			r.post(r.fair)
			r.alive(r.fair, 2)
		})
	}
}

// TestStrict checks that each kind of invalid entry stops a strict CQ.
func TestStrict(t *testing.T) {
	for name, tc := range impossibles {
		t.Run(name, func(t *testing.T) {
			r := newSkipRig(t, Driver{Strict: true}, nil)
			r.put(tc.cqe(r), r.fair.sendCQE(0, opcodeSend))
			for range 2 {
				n, err := r.cq.Poll(make([]provider.WC, 4))
				if bad := new(CQEError); n != 0 || !errors.As(err, &bad) {
					t.Errorf("Poll = %d, %v, want a *CQEError", n, err)
				}
			}
			if r.q.failure.Load() != qpSound || r.onSRQ.failure.Load() != qpSound {
				t.Error("a QP failed on a strict CQ")
			}
		})
	}
}

// TestSkippedOrder has completions of the failing QP in the CQ before the flushed ones, and
// completions of other QPs between them.
func TestSkippedOrder(t *testing.T) {
	r := newSkipRig(t, Driver{}, &CQOptions{EntrySize: 128})
	r.put(r.q.recvCQE(7))
	if wcs := r.poll(); len(wcs) != 0 {
		t.Fatalf("completions = %+v, want none", wcs)
	}
	// The goroutine has moved the QP to the error state, but no poll happens before the next
	// completion.
	<-r.woken
	r.put(r.fair.sendCQE(0, opcodeSend))
	id, _ := ids(t, r.q, r.pollSome()[:4])
	if want := []uint64{1, 2, 3, 4}; !reflect.DeepEqual(id, want) {
		t.Errorf("completions = %v, want %v first", id, want)
	}

	r = newSkipRig(t, Driver{}, nil)
	r.q.commands.Lock() // delays the goroutine
	r.put(r.q.recvCQE(7))
	r.poll()
	r.put(r.fair.sendCQE(0, opcodeSend), r.q.sendCQE(0, opcodeSend), r.fair.recvCQE(0), r.q.recvCQE(0), r.fair.sendCQE(1, opcodeSend))
	r.q.commands.Unlock()
	<-r.woken
	cs := make([]Completion, 5)
	n, err := r.cq.PollExtended(cs)
	if err != nil || n != 5 {
		t.Fatalf("PollExtended = %d, %v, want 5", n, err)
	}
	var got []uint64
	var st []provider.WCStatus
	for _, c := range cs[:4] {
		got, st = append(got, c.ID), append(st, c.Status)
	}
	if want := []uint64{1, 3, 2, 4}; !reflect.DeepEqual(got, want) {
		t.Errorf("completions of the failed QP: %v, want %v", got, want)
	}
	if want := []provider.WCStatus{0, 0, provider.WCFatalErr, provider.WCFatalErr}; !reflect.DeepEqual(st, want) {
		t.Errorf("statuses of the failed QP: %v, want %v", st, want)
	}
	id, _ = ids(t, r.fair, append([]provider.WC{cs[4].WC}, r.poll()...))
	if want := []uint64{1, 3, 2}; !reflect.DeepEqual(id, want) {
		t.Errorf("completions of the other QP: %v, want %v", id, want)
	}
}

// TestFailedReset resets or closes a failing QP, while the goroutine moves it to the error
// state or afterwards.
func TestFailedReset(t *testing.T) {
	for round := range 40 {
		r := newSkipRig(t, Driver{}, nil)
		r.put(r.q.recvCQE(7))
		r.poll()
		if round%4 < 2 {
			<-r.woken
		}
		if round%2 == 0 {
			r.reset(r.q)
		} else if err := r.q.Close(); err != nil {
			t.Fatalf("QP.Close: %v", err)
		}
		if wcs := r.poll(); len(wcs) != 0 {
			t.Errorf("round %d: completions = %+v, want none", round, wcs)
		}
		r.alive(r.fair, 0)
	}
}

// TestFailedCommand has the kernel refuse the command that moves a failing QP to the error
// state. The QP's requests stay outstanding, because the device may use their memory. The next
// invalid entry causes a retry.
func TestFailedCommand(t *testing.T) {
	r := newSkipRig(t, Driver{}, nil)
	refused := make(chan struct{})
	r.before = func(*uverbs.Request) error {
		close(refused)
		return syscall.ENOMEM
	}
	r.put(r.q.recvCQE(7))
	r.poll()
	<-refused
	r.q.commands.Lock() // the goroutine is done
	r.before = nil
	r.q.commands.Unlock()
	if wcs := r.poll(); len(wcs) != 0 || r.q.State() != provider.QPRTS {
		t.Fatalf("completions = %+v in state %v, want none in RTS", wcs, r.q.State())
	}
	r.put(r.q.recvCQE(7))
	if wcs := r.poll(); len(wcs) != 0 {
		t.Fatalf("completions = %+v, want none", wcs)
	}
	r.ended(r.q)
	r.reset(r.q)
}

// TestFailedCommandLog has the kernel repeatedly refuse the command that moves a failing QP to
// the error state. Only some of the refusals are logged.
func TestFailedCommandLog(t *testing.T) {
	r := newSkipRig(t, Driver{}, nil)
	h := &records{Handler: slog.NewTextHandler(io.Discard, nil), message: "cannot be ended", first: make(chan string, 1)}
	r.ctx.SetLog(slog.New(h))
	r.before = func(*uverbs.Request) error { return syscall.ENOMEM }
	start := time.Now()
	for range 100 {
		r.put(r.q.recvCQE(7))
		r.poll()
		for r.q.failure.Load() != qpSound {
			runtime.Gosched()
		}
	}
	most := 1 + int(time.Since(start)/lograte.Interval)
	got := <-h.first
	for _, want := range []string{"device=mlx5_0", fmt.Sprintf("qp=%#x", r.q.num), syscall.ENOMEM.Error(), "failures=1"} {
		if !strings.Contains(got, want) {
			t.Errorf("log record %q, want %q in it", got, want)
		}
	}
	if n := int(h.n.Load()); n > most {
		t.Errorf("%d records of 100 refused commands, want at most %d", n, most)
	}
	r.before = nil
}

// TestFailedUnlocked has an invalid entry name a QP that one goroutine uses. It takes the place of
// the only completion of a send. The next poll completes the send and a receive, which the device
// does not flush. Posts fail as with locks. A post that runs at the same time may still add requests,
// which the following poll completes.
func TestFailedUnlocked(t *testing.T) {
	for _, unlocked := range []struct{ cq, qp bool }{{true, false}, {false, true}, {true, true}} {
		r := &skipRig{woken: make(chan struct{}, 16)}
		r.cqRig = newCQRig(t, provider.CQConfig{Unlocked: unlocked.cq, Wake: r.wake})
		q, _ := r.madeQP(provider.QPConfig{Unlocked: unlocked.qp})
		for range 2 {
			check := func(when string, id []uint64, st []provider.WCStatus) {
				gotID, gotSt := ids(t, q, r.poll())
				if !slices.Equal(gotID, id) || !slices.Equal(gotSt, st) {
					t.Errorf("unlocked %+v: completions %s = %v, %v, want %v, %v", unlocked, when, gotID, gotSt, id, st)
				}
			}
			r.send(q, 1)
			if n, err := q.PostRecv([]provider.RecvWR{{ID: 3}}); n != 1 || err != nil {
				t.Fatalf("QP.PostRecv = %d, %v, want 1, nil", n, err)
			}
			r.put(q.sendCQE(5, opcodeSend))
			check("of the invalid entry", nil, nil)
			<-r.woken
			if attr, err := q.Query(); err != nil || attr.State != provider.QPErr || q.State() != provider.QPErr {
				t.Errorf("unlocked %+v: state %v by Query (%v), %v by State, want ERR", unlocked, attr.State, err, q.State())
			}
			check("of the failed QP", []uint64{1, 3}, []provider.WCStatus{provider.WCFatalErr, provider.WCFatalErr})
			refused(t, q)
			if unlocked.qp {
				q.allow(true, true) // the posts have seen this before the QP failed
				r.send(q, 7, 8)
				if n, err := q.PostRecv([]provider.RecvWR{{ID: 9}}); n != 1 || err != nil {
					t.Fatalf("QP.PostRecv = %d, %v, want 1, nil", n, err)
				}
				q.allow(false, false)
				flushed := provider.WCWRFlushErr
				check("of later requests", []uint64{7, 8, 9}, []provider.WCStatus{flushed, flushed, flushed})
			}
			if err := q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
				t.Fatalf("QP.Modify: %v", err)
			}
			r.connect(q)
			r.post(q)
			r.alive(q, 0)
			if err := q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
				t.Fatalf("QP.Modify: %v", err)
			}
			r.connect(q)
		}
	}
}

// refused checks that a QP in the error state takes no requests.
func refused(t *testing.T, q *QP) {
	t.Helper()
	var state *provider.QPStateError
	if n, err := q.PostSend([]provider.SendWR{{Opcode: provider.OpSend}}); n != 0 || !errors.As(err, &state) || state.State != provider.QPErr {
		t.Errorf("QP.PostSend = %d, %v, want 0, a StateError of ERR", n, err)
	}
	if n, err := q.PostRecv([]provider.RecvWR{{}}); n != 0 || !errors.As(err, &state) || state.State != provider.QPErr {
		t.Errorf("QP.PostRecv = %d, %v, want 0, a StateError of ERR", n, err)
	}
	q.BatchBegin()
	if err := q.BatchSendInline(99, []byte("x"), 0); err != nil {
		t.Errorf("QP.BatchSendInline: %v", err)
	}
	if err := q.BatchPost(); !errors.As(err, &state) || state.State != provider.QPErr {
		t.Errorf("QP.BatchPost = %v, want a StateError of ERR", err)
	}
	if n := q.sq.head - q.sq.tail; n != 0 {
		t.Errorf("%d requests outstanding, want 0", n)
	}
}

// TestFailedUnlockedCommand has the kernel refuse the command that resets a failing QP with
// Unlocked. The QP takes requests again.
func TestFailedUnlockedCommand(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q, _ := r.madeQP(provider.QPConfig{Unlocked: true})
	during := make(chan error)
	r.before = func(*uverbs.Request) error {
		_, err := q.PostSend([]provider.SendWR{{Opcode: provider.OpSend}})
		during <- err
		return syscall.ENOMEM
	}
	r.put(q.recvCQE(7))
	r.poll()
	if err, state := <-during, (*provider.QPStateError)(nil); !errors.As(err, &state) {
		t.Errorf("QP.PostSend during the command: %v, want a StateError", err)
	}
	q.commands.Lock() // the goroutine is done
	r.before = nil
	q.commands.Unlock()
	r.send(q, 1)
	r.put(q.sendCQE(0, opcodeSend))
	if wc := r.one(); wc.ID != 1 || wc.Status != provider.WCSuccess {
		t.Errorf("cqRig.one() = %+v, want request 1 with success", wc)
	}
}

// TestFailedUnlockedPolls has one goroutine post and poll while another one fails its QP. Each
// request completes once.
func TestFailedUnlockedPolls(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{Unlocked: true, Entries: 31})
	q, _ := r.madeQP(provider.QPConfig{Unlocked: true})
	for range 50 {
		completed := map[uint64]int{}
		wcs := make([]provider.WC, 3)
		posted := uint64(0)
		for q.failure.Load() != qpFailed || len(completed) < int(posted) {
			sound := q.failure.Load() == qpSound
			if n := postOne(q, posted); n > 0 {
				switch {
				case posted == 20:
					r.put(&mlx5test.CQE{Opcode: 7, UserIndex: q.index, QPN: q.num})
				case sound:
					r.put(q.sendCQE(uint16(posted), opcodeSend))
				}
				posted++
			}
			n, err := r.cq.Poll(wcs)
			if err != nil {
				t.Fatalf("CQ.Poll: %v", err)
			}
			for _, wc := range wcs[:n] {
				completed[wc.ID]++
			}
			runtime.Gosched()
		}
		for id, n := range completed {
			if n != 1 {
				t.Errorf("request %d completed %d times, want 1", id, n)
			}
		}
		if err := q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
			t.Fatalf("QP.Modify: %v", err)
		}
		r.connect(q)
	}
}

// postOne posts a request with an ID, in a batch if the ID is even, and returns the number of posted
// requests.
func postOne(q *QP, id uint64) int {
	wr := provider.SendWR{ID: id, Opcode: provider.OpSend, Flags: provider.SendSignaled}
	if id%2 == 1 {
		n, _ := q.PostSend([]provider.SendWR{wr})
		return n
	}
	q.BatchBegin()
	if q.BatchAdd(&wr) != nil {
		q.BatchDiscard()
		return 0
	}
	if q.BatchPost() != nil {
		return 0
	}
	return 1
}

// TestFailedTwoCQs has the CQ of a QP's receives get an invalid entry. The requests complete on
// the other CQ.
func TestFailedTwoCQs(t *testing.T) {
	for _, unlocked := range []bool{false, true} {
		testFailedTwoCQs(t, unlocked)
	}
}

func testFailedTwoCQs(t *testing.T, unlocked bool) {
	r := newSkipRig(t, Driver{}, nil)
	cq, _ := r.newCQ(provider.CQConfig{Entries: 15, Wake: r.wake, Unlocked: unlocked})
	q, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: cq, RecvCQ: r.cq,
		Cap: provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 1, RecvSGE: 1}})
	if err != nil {
		t.Fatalf("Context.CreateQP: %v", err)
	}
	defer q.Close()
	r.connect(q)
	r.post(q.(*QP))
	r.put(q.(*QP).recvCQE(5))
	r.poll()
	<-r.woken
	<-r.woken
	if id, _ := ids(t, q.(*QP), r.poll()); !reflect.DeepEqual(id, []uint64{3, 4}) {
		t.Errorf("receives = %v, want 3 and 4", id)
	}
	r.cq = cq
	if id, _ := ids(t, q.(*QP), r.pollSome()); !reflect.DeepEqual(id, []uint64{1, 2}) {
		t.Errorf("requests = %v, want 1 and 2", id)
	}
}

// TestSkippedCompression has an invalid title of compressed completions. The arrays behind it
// are not entries, and the completion after them is not lost, wherever the title is found.
func TestSkippedCompression(t *testing.T) {
	for _, found := range []string{"poll", "purge", "resize"} {
		r := newSkipRig(t, Driver{}, &CQOptions{Compression: CompressHash})
		title := r.fair.recvCQE(0)
		title.UserIndex = 0x777
		r.putCompressed(title, make([]mini, 11))
		title = r.onSRQ.recvCQE(0)
		r.putCompressed(title, make([]mini, 5))
		switch found {
		case "purge":
			if err := r.q.Close(); err != nil {
				t.Fatalf("QP.Close: %v", err)
			}
		case "resize":
			if err := r.cq.Resize(60); err != nil {
				t.Fatalf("CQ.Resize(60): %v", err)
			}
		}
		r.put(r.fair.sendCQE(0, opcodeSend))
		if wc := r.pollSome(); len(wc) == 0 || wc[len(wc)-1].ID != 1 || wc[len(wc)-1].QPNum != r.fair.num {
			t.Errorf("%s: completions = %+v, want request 1 at the end", found, wc)
		}
		if got := r.cq.Skipped(); got != 2 {
			t.Errorf("%s: Skipped() = %d, want 2", found, got)
		}
		if found != "purge" {
			<-r.woken // of onSRQ
		}
	}
}

// TestSkippedTooMany has a title claim more completions than fit. The title is skipped, and so
// is each array that looks like an entry.
func TestSkippedTooMany(t *testing.T) {
	for _, count := range []uint32{0, 1, 33, ^uint32(0)} {
		r := newSkipRig(t, Driver{}, &CQOptions{Compression: CompressHash})
		r.put(&mlx5test.CQE{Format: 3, UserIndex: 0x777, ByteCount: count})
		r.alive(r.fair, 0)
		if got := r.cq.Skipped(); got != 1 {
			t.Errorf("%d completions: Skipped() = %d, want 1", count, got)
		}
	}
}

// TestFailedAfterDiscard fails a QP after a batch was discarded. Only posted requests complete.
func TestFailedAfterDiscard(t *testing.T) {
	r := emptySkipRig(t, Driver{}, nil)
	r.q.BatchBegin()
	for id := range uint64(4) {
		if err := r.q.BatchAdd(&provider.SendWR{ID: 100 + id, Opcode: provider.OpSend}); err != nil {
			t.Fatalf("QP.BatchAdd: %v", err)
		}
	}
	r.q.BatchDiscard()
	if n, err := r.q.PostSend([]provider.SendWR{{ID: 1, Opcode: provider.OpLocalInv}, {ID: 2, Opcode: provider.OpSend}}); n != 2 || err != nil {
		t.Fatalf("QP.PostSend = %d, %v, want 2, nil", n, err)
	}
	r.put(r.q.recvCQE(7))
	r.poll()
	<-r.woken
	if id, _ := ids(t, r.q, r.pollSome()); !reflect.DeepEqual(id, []uint64{1, 2}) {
		t.Errorf("completions = %v, want 1 and 2", id)
	}
}

// TestSkippedCompressionWraps continues to the next round of the ring after the title of
// compressed completions was skipped. The entries that the device did not write, and the
// arrays, are not completions of the next round.
func TestSkippedCompressionWraps(t *testing.T) {
	for _, purge := range []bool{false, true} {
		r := newSkipRig(t, Driver{}, &CQOptions{Compression: CompressHash})
		base := uint16(0)
		for ; base < 16; base += 2 { // the first round
			r.alive(r.fair, base)
			r.post(r.fair)
		}
		title := r.fair.recvCQE(0)
		title.UserIndex = 0x777
		minis := make([]mini, 20)
		for i := range minis {
			minis[i].byteCount = 0x20 // looks like a receive of the next round
		}
		r.putCompressed(title, minis)
		if purge {
			if err := r.q.Close(); err != nil {
				t.Fatalf("QP.Close: %v", err)
			}
		}
		for end := base + 6; base < end; base += 2 {
			r.alive(r.fair, base)
			r.post(r.fair)
		}
		r.put(r.fair.sendCQE(base, opcodeSend))
		if id, _ := ids(t, r.fair, r.pollSome()); !reflect.DeepEqual(id, []uint64{1}) {
			t.Errorf("purge %v: completions = %v, want request 1", purge, id)
		}
		if got := r.cq.Skipped(); got != 1 {
			t.Errorf("purge %v: Skipped() = %d, want 1", purge, got)
		}
	}
}

// TestFailedSetState calls SetState while the kernel resets a failing QP. Afterwards the QP
// refuses requests.
func TestFailedSetState(t *testing.T) {
	r := newSkipRig(t, Driver{}, nil)
	noted := make(chan struct{})
	r.before = func(*uverbs.Request) error {
		r.before = nil
		go func() {
			r.q.SetState(provider.QPErr)
			close(noted)
		}()
		stacks := make([]byte, 1<<20)
		for {
			select {
			case <-noted:
				return nil
			default:
			}
			for _, s := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
				if strings.Contains(s, "[sync.Mutex.Lock") && strings.Contains(s, "SetState") {
					return nil
				}
			}
			runtime.Gosched()
		}
	}
	r.put(r.q.recvCQE(7))
	r.poll()
	<-r.woken
	<-noted
	if n, err := r.q.PostSend([]provider.SendWR{{Opcode: provider.OpSend}}); n != 0 {
		t.Errorf("PostSend to the failed QP = %d, %v, want a StateError", n, err)
	}
}

// records is a slog handler that counts the records with a message, and passes on the first
// ones.
type records struct {
	slog.Handler
	message string
	n       atomic.Int32
	first   chan string
}

func (h *records) Handle(_ context.Context, r slog.Record) error {
	if !strings.Contains(r.Message, h.message) {
		return nil
	}
	h.n.Add(1)
	s := r.Message
	r.Attrs(func(a slog.Attr) bool {
		s += " " + a.String()
		return true
	})
	select {
	case h.first <- s:
	default:
	}
	return nil
}

// TestSkippedLog checks the log of invalid entries. It must not contain the data of a message,
// and not all entries are logged.
func TestSkippedLog(t *testing.T) {
	r := newSkipRig(t, Driver{}, nil)
	h := &records{Handler: slog.NewTextHandler(io.Discard, nil), first: make(chan string, 1)}
	r.ctx.SetLog(slog.New(h))
	e := r.q.recvCQE(9)
	e.Format = formatScatter32
	b := e.Bytes(r.dev.CQESize)
	copy(b, "thirty-two bytes of a secret msg")
	start := time.Now()
	const each = 500
	for range each {
		r.dev.Complete(b)
		r.pollSome()
	}
	most := 1 + int(time.Since(start)/lograte.Interval)
	got := <-h.first
	for _, want := range []string{"completion not understood", "device=mlx5_0", fmt.Sprintf("cq=%#x", r.cq.num), fmt.Sprintf("qp=%#x", r.q.num),
		"completions=1", "reason=completion of a receive that was not posted", "cqe=" + strings.Repeat("00", 32) + fmt.Sprintf("%x", b[32:60])} {
		if !strings.Contains(got, want) {
			t.Errorf("log record %q, want %q in it", got, want)
		}
	}
	if n := int(h.n.Load()); n > most {
		t.Errorf("%d records of %d entries, want at most %d", n, each, most)
	}
	if got := r.cq.Skipped(); got != each {
		t.Errorf("Skipped() = %d, want %d", got, each)
	}
}
