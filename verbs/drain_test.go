// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"net"
	"slices"
	"testing"

	"purerdma/internal/bridge"
	"purerdma/verbs"
)

// ownID is the first ID whose completions go to the handler of a CQ.
const ownID = 1 << 63

// recorder is a handler that records IDs, and calls a function after each poll.
type recorder struct {
	ids    []uint64
	finish func()
}

func (r *recorder) Empty() {}

func (r *recorder) Complete(wc *verbs.WC) bool {
	r.ids = append(r.ids, wc.ID)
	return true
}

func (r *recorder) Finish(bool) {
	if r.finish != nil {
		r.finish()
	}
}

// received returns the receiving end of a connection, whose CQ has the completions of receives with
// these IDs.
func received(t *testing.T, rt *route, ids ...uint64) *end {
	t.Helper()
	l, r := rt.pair(t, verbs.QPCap{SendWR: 256, RecvWR: 256})
	for _, id := range ids {
		r.recv(t, verbs.RecvWR{ID: id, SGList: []verbs.SGE{r.buf.Slice(0, 8)}})
		l.send(t, verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, 8)}})
	}
	l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
		RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 8)}})
	l.ok(t, 1)
	return r
}

// handle makes rec the handler of a CQ.
func handle(cq *verbs.CQ, rec *recorder) {
	internals.Handle(cq, func() bridge.Handler[*verbs.WC] { return rec })
}

// polled polls a CQ until it is empty.
func polled(t *testing.T, cq *verbs.CQ) []uint64 {
	t.Helper()
	var ids []uint64
	wcs := make([]verbs.WC, 3)
	for {
		n, err := cq.Poll(wcs)
		if err != nil {
			t.Fatalf("CQ.Poll: %v", err)
		}
		if n == 0 {
			return ids
		}
		for _, wc := range wcs[:n] {
			ids = append(ids, wc.ID)
		}
	}
}

// TestDrain drains a CQ that has more completions than one poll takes.
func TestDrain(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		var all, own, others []uint64
		for id := range uint64(100) {
			if id%3 == 0 {
				all, others = append(all, id), append(others, id)
			} else {
				all, own = append(all, ownID|id), append(own, ownID|id)
			}
		}
		r := received(t, rt, all...)
		if err := internals.Drain(r.cq); err != nil {
			t.Fatalf("Drain without a handler: %v", err)
		}
		rec := &recorder{}
		handle(r.cq, rec)
		if err := internals.Drain(r.cq); err != nil {
			t.Fatalf("Drain: %v", err)
		}
		if !slices.Equal(rec.ids, own) {
			t.Errorf("IDs of the handler = %#x, want %#x", rec.ids, own)
		}
		if got := polled(t, r.cq); !slices.Equal(got, others) {
			t.Errorf("polled IDs = %v, want %v", got, others)
		}
		if err := internals.Drain(r.cq); err != nil || len(rec.ids) != len(own) {
			t.Errorf("Drain of an empty CQ = %v with %d completions, want nil and %d", err, len(rec.ids), len(own))
		}
	})
}

// TestDrainWakes has a goroutine wait for a completion that Drain takes out of the CQ.
func TestDrainWakes(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		r.cq.SetSpin(0)
		handle(r.cq, &recorder{})
		waited := make(chan error, 1)
		go func() {
			wcs := make([]verbs.WC, 1)
			n, err := r.cq.Wait(deadline(t), wcs)
			if err == nil && (n != 1 || wcs[0].ID != 7) {
				err = errors.New("CQ.Wait returned another completion")
			}
			waited <- err
		}()
		r.recv(t, verbs.RecvWR{ID: 7, SGList: []verbs.SGE{r.buf.Slice(0, 8)}})
		l.send(t, verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, 8)}})
		for {
			select {
			case err := <-waited:
				if err != nil {
					t.Errorf("CQ.Wait: %v", err)
				}
				return
			default:
			}
			if err := internals.Drain(r.cq); err != nil {
				t.Fatalf("Drain: %v", err)
			}
		}
	})
}

// TestCloseDrains closes a QP whose completions are in a CQ with a handler. The handler may use the
// QP during Close. rxe leaves the completions in the CQ, and mlx5 and siw remove them.
func TestCloseDrains(t *testing.T) {
	rt := fakeRoute()
	r := received(t, rt, ownID|1, 2, ownID|3)
	done := false
	rec := &recorder{finish: func() {
		if _, err := r.qp.Query(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("QP.Query during Close: error = %v, want nil or net.ErrClosed", err)
		}
		select {
		case <-r.qp.Done():
			done = true
		default:
		}
	}}
	handle(r.cq, rec)
	if err := r.qp.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	if want := []uint64{ownID | 1, ownID | 3}; !slices.Equal(rec.ids, want) {
		t.Errorf("IDs of the handler = %#x, want %#x", rec.ids, want)
	}
	if done {
		t.Error("QP.Done was closed before the handler had the completions")
	}
	if got := polled(t, r.cq); !slices.Equal(got, []uint64{2}) {
		t.Errorf("polled IDs = %v, want [2]", got)
	}
}
