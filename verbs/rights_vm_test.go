// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"bytes"
	"errors"
	"testing"

	"purerdma/verbs"
)

// again moves two QPs to RESET, and connects them again.
func again(t *testing.T, l, r *end) {
	t.Helper()
	for _, e := range []*end{l, r} {
		e.reset(t)
	}
	l.connectTo(t, r)
	r.connectTo(t, l)
	wcs := make([]verbs.WC, 16)
	for _, e := range []*end{l, r} {
		if _, err := e.cq.Poll(wcs); err != nil { // the flushed completions
			t.Fatalf("CQ.Poll: %v", err)
		}
	}
}

// TestVMReregisterRights removes access rights and restores them, and changes the PD in the
// same way, if the device supports this. Requests fail without the rights, and work with them.
func TestVMReregisterRights(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		other := allocPD(t, r.dev)
		mr, err := r.pd.Alloc(4096, everything)
		if err != nil {
			t.Fatalf("PD.Alloc: %v", err)
		}
		closer(t, mr)
		all, local := verbs.Access(everything), verbs.LocalWrite
		if !expects(t, reregistering) {
			if err := mr.Reregister(verbs.MRChange{Access: &local}); !errors.Is(err, errors.ErrUnsupported) || mr.Access() != all {
				t.Errorf("Reregister on a device without support = %v with access %v, want ErrUnsupported and the old access", err, mr.Access())
			}
			return
		}
		status := func(op verbs.SendOpcode) verbs.WCStatus {
			t.Helper()
			wr := verbs.SendWR{ID: 1, Opcode: op, Flags: verbs.SendSignaled, RemoteAddr: mr.Addr(), RKey: mr.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 8)}}
			if op == verbs.OpSend {
				// This is more data than mlx5 puts into a completion, where only the provider
				// checks the memory.
				wr.SGList[0] = l.buf.Slice(0, 80)
				r.recv(t, verbs.RecvWR{ID: 9, SGList: []verbs.SGE{mr.Slice(0, 80)}})
			}
			l.send(t, wr)
			got := l.collect(t, 1)[1].Status
			if op == verbs.OpSend {
				r.collect(t, 1)
			}
			return got
		}
		for _, op := range []verbs.SendOpcode{verbs.OpFetchAdd, verbs.OpWrite, verbs.OpRead} {
			if err := mr.Reregister(verbs.MRChange{Access: &local}); err != nil {
				t.Fatalf("MR.Reregister: %v", err)
			}
			if s := status(op); s != verbs.WCRemAccessErr {
				t.Errorf("%v without the right: status = %v, want WCRemAccessErr", op, s)
			}
			again(t, l, r)
			if err := mr.Reregister(verbs.MRChange{Access: &all}); err != nil {
				t.Fatalf("MR.Reregister: %v", err)
			}
			if s := status(op); s != verbs.WCSuccess {
				t.Errorf("%v with the right: status = %v, want WCSuccess", op, s)
			}
		}
		if s := status(verbs.OpSend); s != verbs.WCSuccess {
			t.Errorf("status of a SEND = %v, want WCSuccess", s)
		}
		if err := mr.Reregister(verbs.MRChange{PD: other}); err != nil {
			t.Fatalf("MR.Reregister: %v", err)
		}
		if s := status(verbs.OpSend); s != verbs.WCRemOpErr {
			t.Errorf("status of a SEND into the memory of another PD = %v, want WCRemOpErr", s)
		}
		again(t, l, r)
		if err := mr.Reregister(verbs.MRChange{PD: r.pd}); err != nil {
			t.Fatalf("MR.Reregister: %v", err)
		}
		if s := status(verbs.OpSend); s != verbs.WCSuccess {
			t.Errorf("status of a SEND into the memory of the first PD = %v, want WCSuccess", s)
		}
		if err := other.Close(); err != nil {
			t.Errorf("PD.Close: %v", err)
		}
	})
}

// TestVMWindowsGone writes with the key of a window that the peer has invalidated, that is
// closed, or that lacks the right.
func TestVMWindowsGone(t *testing.T) {
	for what, take := range map[string]func(t *testing.T, l, r *end, mr *verbs.MR, w *verbs.MW){
		"invalidated by the peer": func(t *testing.T, l, r *end, _ *verbs.MR, w *verbs.MW) {
			r.recv(t, verbs.RecvWR{ID: 5})
			l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSendInv, Flags: verbs.SendSignaled, InvalidateRKey: w.RKey()})
			l.ok(t, 1)
			r.ok(t, 1)
		},
		"closed": func(t *testing.T, _, _ *end, _ *verbs.MR, w *verbs.MW) {
			if err := w.Close(); err != nil {
				t.Fatalf("MW.Close: %v", err)
			}
		},
		"without the right": func(t *testing.T, _, r *end, mr *verbs.MR, w *verbs.MW) {
			if wc := r.batch(t, func(b *verbs.Batch) {
				b.Add(&verbs.SendWR{ID: 899, Opcode: verbs.OpLocalInv, InvalidateRKey: w.RKey()})
				b.Add(signaled(w.Bind(mr, 0, 100, verbs.RemoteRead)))
			}); wc.Err() != nil {
				t.Fatalf("completion of the bind: %v", wc.Err())
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			vmRoutes(t, func(t *testing.T, rt *route) {
				l, r := rt.pair(t, verbs.QPCap{})
				mr, w := r.window(t, verbs.MWType2)
				if wc := r.bind(t, w.Bind(mr, 0, 100, verbs.RemoteWrite)); wc.Err() != nil {
					t.Fatalf("completion of the bind: %v", wc.Err())
				}
				write := func() verbs.WCStatus {
					l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: mr.Addr(), RKey: w.RKey(), InlineData: []byte("x")})
					return l.collect(t, 1)[1].Status
				}
				if s := write(); s != verbs.WCSuccess {
					t.Fatalf("status of the WRITE = %v, want WCSuccess", s)
				}
				take(t, l, r, mr, w)
				if s := write(); s != verbs.WCRemAccessErr {
					t.Errorf("status of the WRITE = %v, want WCRemAccessErr", s)
				}
			})
		})
	}
}

// TestVMRelaxedOrdering checks that devices that do not use the right accept it, and that it
// changes nothing there.
func TestVMRelaxedOrdering(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		exchange := func(t *testing.T, l, r *end, wr verbs.SendWR, head int) {
			t.Helper()
			const rights = verbs.LocalWrite | verbs.RemoteWrite | verbs.RelaxedOrdering
			var mrs []*verbs.MR
			for _, e := range []*end{l, r} {
				mr, err := e.pd.Alloc(8192, rights)
				if err != nil {
					t.Fatalf("PD.Alloc: %v", err)
				}
				closer(t, mr)
				mrs = append(mrs, mr)
			}
			const n = 1000
			for i := range 20 {
				data := fill(mrs[0].Bytes()[:n], byte(i))
				r.recv(t, verbs.RecvWR{ID: 2, SGList: []verbs.SGE{mrs[1].Slice(0, 4096)}})
				wr.ID, wr.Opcode, wr.Flags, wr.SGList = 1, verbs.OpSend, verbs.SendSignaled, []verbs.SGE{mrs[0].Slice(0, n)}
				l.send(t, wr)
				l.ok(t, 1)
				r.ok(t, 1)
				if !bytes.Equal(mrs[1].Bytes()[head:head+n], data) {
					t.Fatalf("the bytes of message %d differ", i)
				}
				if l.qp.Type() == verbs.RC {
					l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: mrs[1].Addr() + 4096, RKey: mrs[1].RKey(), SGList: wr.SGList})
					l.ok(t, 1)
					if !bytes.Equal(mrs[1].Bytes()[4096:4096+n], data) {
						t.Fatalf("the bytes of WRITE %d differ", i)
					}
				}
			}
		}
		t.Run("RC", func(t *testing.T) {
			l, r := rt.pair(t, verbs.QPCap{})
			exchange(t, l, r, verbs.SendWR{}, 0)
		})
		t.Run("UD", func(t *testing.T) {
			l, r := rt.udPair(t)
			exchange(t, l, r, verbs.SendWR{AH: l.ah(t, l.to(r.gid)), RemoteQPN: r.qp.Num(), RemoteQKey: qkey}, verbs.GRHLen)
		})
	})
}
