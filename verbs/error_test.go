// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

func TestSendInv(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		r.recv(t, verbs.RecvWR{ID: 100, SGList: []verbs.SGE{r.buf.Slice(0, 64)}})
		l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSendInv, InvalidateRKey: r.buf.RKey(), Flags: verbs.SendSignaled, SGList: []verbs.SGE{l.buf.Slice(0, 64)}})
		if rt.mlx5 {
			// The peer does not invalidate a key of a plain memory region, and returns an error
			// to the sender.
			if wc := l.collect(t, 1)[1]; wc.Status != verbs.WCRemInvReqErr {
				t.Errorf("completion of the send = %+v, want WCRemInvReqErr", wc)
			}
			return
		}
		wc := r.collect(t, 1)[100]
		if rt.fake != nil {
			if wc.Err() != nil || wc.Flags&verbs.WCWithInv == 0 || wc.InvalidatedRKey != r.buf.RKey() {
				t.Errorf("completion of the receive = %+v, want key %#x", wc, r.buf.RKey())
			}
			return
		}
		// The rxe of Linux does not invalidate a key of a plain memory region. Its attempt
		// shows that the key has arrived. bnxt_re does not invalidate it either. No document has the
		// status of the receive, and the software NetXtreme-E returns an error in the management of
		// memory, which libbnxt_re shows as an error of a bind.
		want, text := verbs.WCRemInvReqErr, "remote invalid request"
		if vmtest.Driver() == "bnxt_re" {
			want, text = verbs.WCMWBindErr, "memory window bind error"
		}
		if wc.Status != want {
			t.Errorf("completion of the receive = %+v, want %v", wc, want)
		}
		var e *verbs.WCError
		if err := wc.Err(); !errors.As(err, &e) || e.QPNum != r.qp.Num() || e.ID != 100 || !strings.Contains(err.Error(), text) {
			t.Errorf("Err() = %v, want a WCError of request 100 of QP %#x", err, r.qp.Num())
		}
	})
}

func TestRemoteAccessError(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		l.send(t,
			verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey() ^ 0x55, SGList: []verbs.SGE{l.buf.Slice(0, 8)}},
			verbs.SendWR{ID: 2, Opcode: verbs.OpSend, InlineData: []byte("flushed")},
		)
		got := l.collect(t, 2) // errors also complete without SendSignaled
		if got[1].Status != verbs.WCRemAccessErr || got[2].Status != verbs.WCWRFlushErr {
			t.Errorf("completions = %+v, want WCRemAccessErr and WCWRFlushErr", got)
		}
		if a, err := l.qp.Query(); err != nil || a.State != verbs.QPErr {
			t.Errorf("Query = %v, %v, want ERR, nil", a.State, err)
		}
	})
}

func TestFlush(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		sge := []verbs.SGE{r.buf.Slice(0, 64)}
		r.recv(t, verbs.RecvWR{ID: 1, SGList: sge}, verbs.RecvWR{ID: 2, SGList: sge})
		modify(t, r.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
		r.recv(t, verbs.RecvWR{ID: 3, SGList: sge})
		r.send(t, verbs.SendWR{ID: 4, Opcode: verbs.OpSend, SGList: sge})
		for id, wc := range r.collect(t, 4) {
			if wc.Status != verbs.WCWRFlushErr {
				t.Errorf("status of work request %d = %v, want WCWRFlushErr", id, wc.Status)
			}
		}
		// After the return to RTS, the rings continue at their current positions.
		r.reset(t)
		l.reset(t)
		if _, err := r.qp.PostRecv([]verbs.RecvWR{{}}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("PostRecv in RESET = %v, want EINVAL", err)
		}
		l.connectTo(t, r)
		if _, err := l.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}}); err != nil {
			t.Fatalf("QP.PostSend: %v", err)
		}
		r.connectTo(t, l)
		r.recv(t, verbs.RecvWR{ID: 5, SGList: sge})
		if got := r.ok(t, 1); got[5].Opcode != verbs.WCRecv {
			t.Errorf("completion = %+v, want the receive that was posted last", got)
		}
	})
}

func TestFull(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{SendWR: 10, RecvWR: 10})
		n := l.qp.Cap().RecvWR
		wrs := make([]verbs.RecvWR, n+3)
		if got, err := r.qp.PostRecv(wrs); got != n || !errors.Is(err, verbs.ErrFull) {
			t.Errorf("PostRecv of %d = %d, %v, want %d, ErrFull", len(wrs), got, err, n)
		}
		// No request is lost when a send queue is full. The loop continues when there is room.
		wr := []verbs.SendWR{{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 4096)}}}
		ctx := deadline(t)
		wcs := make([]verbs.WC, 8)
		for posted, done := 0, 0; done < 200; {
			for posted < 200 {
				wr[0].ID = uint64(posted)
				_, err := l.qp.PostSend(wr)
				if errors.Is(err, verbs.ErrFull) {
					break
				} else if err != nil {
					t.Fatalf("QP.PostSend: %v", err)
				}
				posted++
			}
			k, err := l.cq.Wait(ctx, wcs)
			if err != nil {
				t.Fatalf("CQ.Wait: %v", err)
			}
			for _, wc := range wcs[:k] {
				if wc.Err() != nil || wc.ID != uint64(done) {
					t.Fatalf("completion = %+v, want success of ID %d", wc, done)
				}
				done++
			}
		}
	})
}

func TestWaitEnds(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, _ := rt.pair(t, verbs.QPCap{})
		wcs := make([]verbs.WC, 1)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if _, err := l.cq.Wait(ctx, wcs); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait past its deadline = %v, want DeadlineExceeded", err)
		}
		cq, err := l.dev.CreateCQ(verbs.CQConfig{Entries: 1, Channel: l.cq.Channel()})
		if err != nil {
			t.Fatalf("Device.CreateCQ: %v", err)
		}
		got := make(chan error)
		go func() {
			_, err := cq.Wait(context.Background(), wcs)
			got <- err
		}()
		time.Sleep(20 * time.Millisecond)
		if err := cq.Close(); err != nil {
			t.Fatalf("CQ.Close: %v", err)
		}
		if err := <-got; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Wait on a closed CQ = %v, want net.ErrClosed", err)
		}
	})
}

func isRemoved(err error) bool {
	var e *verbs.DeviceRemovedError
	return errors.As(err, &e)
}
