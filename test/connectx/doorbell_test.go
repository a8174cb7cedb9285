// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"strings"
	"testing"
	"time"

	"purerdma/test/connectx/prm"
)

// lagging is a QP whose doorbells arrive late.
type lagging struct {
	*pair
	stored [][]byte // stores to a register that the device has not received yet
}

func newLagging(t *testing.T) *lagging {
	l := &lagging{pair: newPair(t, prm.ServiceRC, func(c []byte) {
		prm.ADS.AckTimeout.Set(prm.QPC.Primary.Of(c), 0) // no timeout
	})}
	l.a.d.cfg.Trace, l.b.d.cfg.Trace = nil, nil // the traces would be too long
	return l
}

// post posts requests, every other one with two WQEBBs, and rings a doorbell for each.
func (l *lagging) post(n int) {
	for i := range n {
		w := atOnce()
		if i%2 != 0 {
			w = request1(prm.WQEWrite, signaled, 0).remote(memoryBase, l.b.key).inline(make([]byte, 64))
		}
		l.stored = append(l.stored, append([]byte(nil), l.qa.put(w)[:8]...))
		be.PutUint32(l.a.bytes(l.qa.record+4, 4), uint32(l.qa.pi))
	}
}

// arrive delivers the oldest store to the device, and polls the resulting completions.
func (l *lagging) arrive() {
	l.a.d.Ring(l.a.uar, RegisterSend, l.stored[0])
	l.stored = l.stored[1:]
	for e := l.qa.send.poll(); e != nil; e = l.qa.send.poll() {
		if prm.CQE.Opcode.Get(e) != prm.CQEReq {
			l.a.t.Fatalf("completion = %x, want success", e)
		}
	}
}

// TestLateDoorbells makes the device execute more WQEBBs ahead of the doorbells than an index
// counts. This must not be a violation, and later violations must be detected.
func TestLateDoorbells(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(l *lagging)
		want string
	}{
		"none":         {func(l *lagging) { l.post(1); l.arrive() }, ""},
		"stale record": {func(l *lagging) { l.a.d.Ring(l.a.uar, RegisterSend, l.qa.put(atOnce())[:8]) }, "but the doorbell record has"},
		"record of one before": {func(l *lagging) {
			l.post(1)
			l.a.d.Ring(l.a.uar, RegisterSend, l.qa.put(atOnce())[:8])
		}, "but the doorbell record has"},
		"before WQE": {func(l *lagging) {
			l.post(1)
			clear(l.a.bytes(l.qa.sq+uint64(l.qa.pi-1)%64*64, 64))
			l.a.d.Ring(l.a.uar, RegisterSend, l.stored[0])
		}, "in memory is"},
		"backwards": {func(l *lagging) {
			l.post(2)
			first := l.stored[0]
			l.arrive()
			l.arrive()
			l.a.d.Ring(l.a.uar, RegisterSend, first)
			if v := l.a.violated(); len(v) != 1 {
				l.a.t.Errorf("violations = %v, want one", v)
			}
			l.post(1)
			l.arrive() // a valid doorbell
			if v := l.a.violated(); len(v) > 0 {
				l.a.t.Errorf("violations after a valid doorbell = %v", v)
			}
			l.a.d.Ring(l.a.uar, RegisterSend, first)
		}, "but the doorbell record has"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLagging(t)
			const longest = 1 << 16 // requests of one or two WQEBBs
			for len(l.stored) < longest {
				l.post(32)
				l.arrive()
			}
			for len(l.stored) > 1 { // the driver continues to post, but slowly
				l.post(1)
				l.arrive()
				l.arrive()
			}
			l.arrive()
			if v := l.a.violated(); len(v) > 0 {
				t.Fatalf("late doorbells: %d violations, first %v", len(v), v[0])
			}
			l.a.tolerant = true
			tc.do(l)
			v := l.a.violated()
			if tc.want == "" && len(v) > 0 || tc.want != "" && (len(v) == 0 || !strings.Contains(v[0].Text, tc.want)) {
				t.Errorf("violations = %v, want %q", v, tc.want)
			}
		})
	}
}

// TestDoorbellAfterNOPs posts as many NOPs as an index counts. The device does not check their
// doorbells, which are copies. A violation afterwards must be detected.
func TestDoorbellAfterNOPs(t *testing.T) {
	l := newLagging(t)
	for range 1<<16 + 10 {
		line := append(append([]byte(nil), l.qa.put(request1(prm.WQENop, 0, 0))...), make([]byte, 64)...)
		be.PutUint32(l.a.bytes(l.qa.record+4, 4), uint32(l.qa.pi))
		l.locked(func() { // timers do not expire
			for off := 0; off < 64; off += 8 {
				l.a.d.ring(l.a.uar, RegisterSend+off, line[off:off+8])
			}
		})
	}
	if v := l.a.violated(); len(v) > 0 {
		t.Fatalf("%d violations, first %v", len(v), v[0])
	}
	l.a.tolerant = true
	l.a.d.Ring(l.a.uar, RegisterSend, l.qa.put(atOnce())[:8])
	if v := l.a.violated(); len(v) != 1 || !strings.Contains(v[0].Text, "but the doorbell record has") {
		t.Errorf("violations = %v, want one about the doorbell record", v)
	}
}

// TestDoorbellOfWaiting rings for a request that the device has started and not completed, and
// whose memory is still valid. A reset ends this.
func TestDoorbellOfWaiting(t *testing.T) {
	for name, changed := range map[string]bool{"as it was": false, "changed": true} {
		t.Run(name, func(t *testing.T) {
			l := newLagging(t)
			messages := 0
			l.a.d.fabric.OnPacket(func(*Packet) (Fate, time.Duration) {
				if messages++; messages == 1 {
					return Arrives, 0
				}
				return Lost, 0
			})
			l.post(2)
			l.arrive() // both are started, and the second waits for its answer
			if changed {
				l.a.tolerant = true
				l.a.bytes(l.qa.sq+64, 64)[0] ^= 1
			}
			l.arrive()
			v := l.a.violated()
			if changed && (len(v) == 0 || !strings.Contains(v[0].Text, "in memory is")) || !changed && len(v) > 0 {
				t.Errorf("violations = %v, want some: %v", v, changed)
			}
			l.a.d.fabric.OnPacket(nil)
			l.qa.again(l.qb)
			l.post(2)
			l.arrive()
			l.arrive()
			if v := l.a.violated(); len(v) > 0 {
				t.Errorf("violations after a reset = %v", v)
			}
		})
	}
}
