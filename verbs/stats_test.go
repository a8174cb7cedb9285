// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"reflect"
	"testing"

	"purerdma/verbs"
)

// TestStats compares the counts of two QPs and their CQs with the requests of the test, and checks that
// the device and the Host keep the counts of closed objects.
func TestStats(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		before := hostStats(rt.h, rt.a.Device)
		dev := openDevice(t, rt.h, rt.a.Device) // the device stays open
		l, r := rt.pair(t, verbs.QPCap{SendWR: 15, SendSGE: 3, Inline: 16})
		for i := range uint64(3) {
			r.recv(t, verbs.RecvWR{ID: i, SGList: []verbs.SGE{r.buf.Slice(int(i)*100, 100)}})
		}
		remote := r.buf.Remote()
		l.send(t,
			verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, SGList: []verbs.SGE{l.buf.Slice(0, 40), l.buf.Slice(100, 2)}, RemoteAddr: remote.Addr, RKey: remote.RKey},
			verbs.SendWR{ID: 2, Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, 70)}},
			verbs.SendWR{ID: 3, Opcode: verbs.OpSend, InlineData: []byte("inline"), Flags: verbs.SendSignaled})
		var b verbs.Batch
		b.Reset(l.qp)
		b.Write(4, l.buf.Slice(0, 9), remote, 0)
		b.Discard()
		b.Write(5, l.buf.Slice(0, 16), remote, 0)
		b.Send(6, l.buf.Slice(0, 1), verbs.SendSignaled)
		if err := b.Post(); err != nil {
			t.Fatalf("Batch.Post: %v", err)
		}
		l.ok(t, 2)
		r.ok(t, 3)

		var sends verbs.SendCounts
		sends[verbs.OpWrite] = verbs.Count{Operations: 2, Bytes: 58}
		sends[verbs.OpSend] = verbs.Count{Operations: 3, Bytes: 77}
		got := l.qp.Stats()
		if got.Sends != sends || got.Receives != 0 || got.Doorbells == 0 {
			t.Errorf("QP.Stats = %+v, want the sends %+v, no receives, and doorbells", got, sends)
		}
		if got := r.qp.Stats(); got != (verbs.QPStats{Receives: 3}) {
			t.Errorf("QP.Stats of the receiver = %+v, want 3 receives", got)
		}
		if got := l.cq.Stats(); got.Completions != (verbs.StatusCounts{verbs.WCSuccess: 2}) || got.Received != (verbs.Count{}) {
			t.Errorf("CQ.Stats = %+v, want 2 successes", got)
		}
		cq := r.cq.Stats()
		if cq.Completions != (verbs.StatusCounts{verbs.WCSuccess: 3}) || cq.Received != (verbs.Count{Operations: 3, Bytes: 77}) {
			t.Errorf("CQ.Stats of the receiver = %+v, want 3 successes with 77 bytes", cq)
		}
		if cq.SpinHits > cq.Waits {
			t.Errorf("CQ.Stats of the receiver = %+v, want at most as many spin hits as waits", cq)
		}
		var wcs [1]verbs.WC
		if n, err := r.cq.Poll(wcs[:]); n != 0 || err != nil {
			t.Fatalf("CQ.Poll = %d, %v, want 0, nil", n, err)
		}
		if got := r.cq.Stats().EmptyPolls; got != cq.EmptyPolls+1 {
			t.Errorf("CQ.Stats = %d empty polls, want %d", got, cq.EmptyPolls+1)
		}

		// A flush counts by its status.
		r.recv(t, verbs.RecvWR{ID: 9, SGList: []verbs.SGE{r.buf.Slice(0, 100)}})
		modify(t, r.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
		r.collect(t, 1)
		if got := r.cq.Stats().Completions; got[verbs.WCWRFlushErr] != 1 {
			t.Errorf("CQ.Stats = %v completions, want 1 flush", got)
		}

		sum := dev.Stats()
		if sum.QP.Sends[verbs.OpSend].Operations < 3 || sum.QPs == 0 || sum.CQs == 0 || sum.Device != rt.a.Device {
			t.Errorf("Device.Stats = %+v, want at least the counts of one QP", sum)
		}
		for _, c := range []interface{ Close() error }{l.qp, r.qp, l.cq, r.cq} {
			if err := c.Close(); err != nil {
				t.Fatalf("%T.Close: %v", c, err)
			}
		}
		if got := l.qp.Stats(); got.Sends != sends {
			t.Errorf("QP.Stats after Close = %+v, want the sends %+v", got, sends)
		}
		after := dev.Stats()
		if after.QPs != 0 || after.CQs != 0 {
			t.Errorf("Device.Stats = %d QPs and %d CQs after Close, want 0", after.QPs, after.CQs)
		}
		after.QPs, after.CQs, sum.QPs, sum.CQs = 0, 0, 0, 0
		after.CQ.EmptyPolls = sum.CQ.EmptyPolls // Close polls
		if !reflect.DeepEqual(after, sum) {
			t.Errorf("Device.Stats after Close = %+v, want %+v", after, sum)
		}

		after = hostStats(rt.h, rt.a.Device)
		if n := after.QP.Sends[verbs.OpSend].Operations - before.QP.Sends[verbs.OpSend].Operations; n != 3 {
			t.Errorf("Host.Stats = %d SENDs more, want 3", n)
		}
	})
}

// hostStats returns the counts of a device of a Host.
func hostStats(h *verbs.Host, device string) verbs.DeviceStats {
	for _, s := range h.Stats() {
		if s.Device == device {
			return s
		}
	}
	return verbs.DeviceStats{}
}

// TestStatsOfClosedDevice checks that a Host keeps and continues the counts of a device that is closed
// and opened again.
func TestStatsOfClosedDevice(t *testing.T) {
	rt := fakeRoute()
	for round := range uint64(3) {
		t.Run("", func(t *testing.T) {
			l, r := rt.pair(t, verbs.QPCap{})
			r.recv(t, verbs.RecvWR{SGList: []verbs.SGE{r.buf.Slice(0, 100)}})
			l.send(t, verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, 10)}, Flags: verbs.SendSignaled})
			l.ok(t, 1)
			r.ok(t, 1)
		})
		got := rt.h.Stats()
		if len(got) != 2 || got[0].Device != "rxe0" || got[1].Device != "rxe1" {
			t.Fatalf("Host.Stats = %+v, want rxe0 and rxe1", got)
		}
		want := verbs.Count{Operations: round + 1, Bytes: 10 * (round + 1)}
		if sent, received := got[0].QP.Sends[verbs.OpSend], got[1].CQ.Received; sent != want || received != want || got[0].QPs+got[0].CQs != 0 {
			t.Errorf("Host.Stats = %+v sent and %+v received, %d QPs, %d CQs, want %+v twice, 0, 0", sent, received, got[0].QPs, got[0].CQs, want)
		}
	}
}
