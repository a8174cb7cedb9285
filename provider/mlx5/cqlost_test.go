// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"slices"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx/prm"
)

// lostRig is a skipRig whose QP q has posted requests with the IDs 1 to 6. Requests 1, 4 and 6 are
// signaled. Request 3 has two blocks, so that the blocks are 0, 1, 2, 4, 5 and 6.
func lostRig(t *testing.T) *skipRig {
	t.Helper()
	r := emptySkipRig(t, Driver{}, nil)
	send := provider.SendWR{Opcode: provider.OpSend}
	wrs := []provider.SendWR{send, send, {Opcode: provider.OpLocalInv}, send, send, send}
	for i := range wrs {
		wrs[i].ID = uint64(i) + 1
	}
	for _, i := range []int{0, 3, 5} {
		wrs[i].Flags = provider.SendSignaled
	}
	post(t, r.q, wrs...)
	return r
}

// flushedCQE returns the completion of a request that the device has flushed.
func (q *QP) flushedCQE(index uint16) *mlx5test.CQE {
	return &mlx5test.CQE{Opcode: mlx5test.CQEReqErr, Syndrome: uint8(prm.SyndromeFlush), UserIndex: q.index, QPN: q.num, WQECounter: index}
}

// TestLostRequest has an invalid entry take the place of the completion of request 4, in a QP that
// was sound until then. The next completion of the send queue does not retire request 4 silently. If
// it is a good one, the unsignaled requests before it have succeeded.
func TestLostRequest(t *testing.T) {
	entries := map[string]func(r *skipRig) *mlx5test.CQE{
		"names the QP": func(r *skipRig) *mlx5test.CQE { return &mlx5test.CQE{Opcode: 7, UserIndex: r.q.index, QPN: r.q.num} },
		"names nobody": func(r *skipRig) *mlx5test.CQE { return &mlx5test.CQE{UserIndex: 0xffffff, QPN: r.q.num} },
		"names another": func(r *skipRig) *mlx5test.CQE {
			return &mlx5test.CQE{Opcode: 7, UserIndex: r.onSRQ.index, QPN: r.onSRQ.num}
		},
	}
	const ok, fatal, flushed = provider.WCSuccess, provider.WCFatalErr, provider.WCWRFlushErr
	next := map[string]struct {
		cqe func(q *QP) *mlx5test.CQE
		id  []uint64
		st  []provider.WCStatus
	}{
		"success": {func(q *QP) *mlx5test.CQE { return q.sendCQE(6, opcodeSend) },
			[]uint64{1, 4, 6}, []provider.WCStatus{ok, fatal, ok}},
		"success without a signal": {func(q *QP) *mlx5test.CQE { return q.sendCQE(5, opcodeSend) },
			[]uint64{1, 4, 5, 6}, []provider.WCStatus{ok, fatal, ok, fatal}},
		"failure": {func(q *QP) *mlx5test.CQE { return q.flushedCQE(6) },
			[]uint64{1, 2, 3, 4, 5, 6}, []provider.WCStatus{ok, fatal, flushed, flushed, flushed, flushed}},
	}
	polls := map[string]func(r *skipRig, first, second []*mlx5test.CQE) []provider.WC{
		"one poll": func(r *skipRig, first, second []*mlx5test.CQE) []provider.WC {
			r.put(append(first, second...)...)
			return r.pollSome()
		},
		"two polls": func(r *skipRig, first, second []*mlx5test.CQE) []provider.WC {
			r.put(first...)
			wcs := r.pollSome()
			r.put(second...)
			return append(wcs, r.pollSome()...)
		},
		"a poll for each completion": func(r *skipRig, first, second []*mlx5test.CQE) []provider.WC {
			r.put(append(first, second...)...)
			var wcs []provider.WC
			one := make([]provider.WC, 1)
			for {
				n, err := r.cq.Poll(one)
				if err != nil {
					t.Fatalf("CQ.Poll: %v", err)
				}
				if n == 0 {
					return wcs
				}
				wcs = append(wcs, one[0])
			}
		},
		"PollExtended": func(r *skipRig, first, second []*mlx5test.CQE) []provider.WC {
			second[0].Timestamp = 77
			r.put(append(first, second...)...)
			cs := make([]Completion, 16)
			n, err := r.cq.PollExtended(cs)
			if err != nil {
				t.Fatalf("CQ.PollExtended: %v", err)
			}
			var wcs []provider.WC
			for i, c := range cs[:n] {
				if last := i == n-1; second[0].Opcode == mlx5test.CQEReq && c.Timestamp == 77 != last {
					t.Errorf("completion %d of %d has the time stamp %d, want 77 only in the last", i, n, c.Timestamp)
				}
				wcs = append(wcs, c.WC)
			}
			return wcs
		},
		"after the reset": func(r *skipRig, first, second []*mlx5test.CQE) []provider.WC {
			r.put(first...)
			wcs := r.pollSome()
			r.put(second...)
			r.q.commands.Unlock()
			r.waitEnded(r.q)
			r.q.commands.Lock()
			return append(wcs, r.pollSome()...)
		},
	}
	for entry, invalid := range entries {
		for kind, tc := range next {
			for how, poll := range polls {
				t.Run(entry+", "+kind+", "+how, func(t *testing.T) {
					r := lostRig(t)
					r.onSRQ.commands.Lock() // delays the goroutines that end failing QPs
					r.q.commands.Lock()
					wcs := poll(r, []*mlx5test.CQE{r.q.sendCQE(0, opcodeSend), invalid(r)}, []*mlx5test.CQE{tc.cqe(r.q)})
					r.q.commands.Unlock()
					r.waitEnded(r.q)
					if r.q.failure.Load() != qpFailed {
						t.Error("the QP does not fail")
					}
					r.onSRQ.commands.Unlock()
					id, st := ids(t, r.q, append(wcs, r.pollSome()...))
					if !slices.Equal(id, tc.id) || !slices.Equal(st, tc.st) {
						t.Errorf("completions = %v, %v, want %v, %v", id, st, tc.id, tc.st)
					}
				})
			}
		}
	}
}

// TestNothingLost skips an invalid entry that takes the place of no completion. The completions of a
// QP that signals some of its requests are then as before, and the QP does not fail.
func TestNothingLost(t *testing.T) {
	for name, last := range map[string]func(q *QP) *mlx5test.CQE{
		"success": func(q *QP) *mlx5test.CQE { return q.sendCQE(6, opcodeSend) },
		"failure": func(q *QP) *mlx5test.CQE { return q.flushedCQE(6) },
	} {
		r := lostRig(t)
		r.put(&mlx5test.CQE{UserIndex: 0xffffff}, r.q.sendCQE(0, opcodeSend), r.q.sendCQE(4, opcodeSend), last(r.q))
		if id, _ := ids(t, r.q, r.poll()); !slices.Equal(id, []uint64{1, 4, 6}) {
			t.Errorf("%s: completions = %v, want 1, 4 and 6", name, id)
		}
		if r.q.failure.Load() != qpSound {
			t.Errorf("%s: the QP fails", name)
		}
	}
}
