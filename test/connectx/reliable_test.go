// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"testing"
	"time"

	"purerdma/test/connectx/prm"
)

// locked runs f with the fabric's lock held. Timers need it to run.
func (p *pair) locked(f func()) {
	p.a.d.fabric.lock()
	defer p.a.d.fabric.unlock()
	f()
}

// await checks repeatedly under the lock until ok returns true.
func (p *pair) await(what string, ok func() bool) {
	p.a.t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(200 * time.Microsecond) {
		done := false
		p.locked(func() { done = ok() })
		if done {
			return
		}
		if time.Now().After(end) {
			p.a.t.Fatalf("%s: timeout", what)
		}
	}
}

// completion waits for a completion.
func (p *pair) completion(q *testCQ) (e []byte) {
	p.a.t.Helper()
	p.await("completion", func() bool { e = q.poll(); return e != nil })
	return e
}

// lose loses the first n messages that match, or their answers.
func (p *pair) lose(n int, what Fate, match func(*Packet) bool) *int {
	seen := new(int)
	p.a.d.fabric.OnPacket(func(k *Packet) (Fate, time.Duration) {
		if !match(k) {
			return Arrives, 0
		}
		if *seen++; *seen > n {
			return Arrives, 0
		}
		return what, 0
	})
	return seen
}

func sends(k *Packet) bool { return true }

// TestRetransmission loses messages and answers. Each operation must be executed once.
func TestRetransmission(t *testing.T) {
	for name, what := range map[string]Fate{"request": Lost, "answer": AnswerLost} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, prm.ServiceRC, nil)
			src, dst := p.a.alloc(4096), p.b.alloc(4096)
			word := p.b.bytes(dst+512, 8)
			binary.NativeEndian.PutUint64(word, 40)
			copy(p.a.bytes(src, 16), "sent once")
			p.qb.receive(dst, 64)
			p.qb.receive(dst+64, 64)
			for i, w := range []*wqe{
				request1(prm.WQESend, signaled, 0).data(9, p.a.key, src),
				request1(prm.WQEFetchAdd, signaled, 0).remote(dst+512, p.b.key).atomic(2, 0).data(8, p.a.key, src+100),
				request1(prm.WQERead, signaled, 0).remote(dst, p.b.key).data(9, p.a.key, src+200),
				request1(prm.WQEWrite, signaled, 0).remote(dst+300, p.b.key).data(9, p.a.key, src),
			} {
				seen := p.lose(2, what, sends) // two of three attempts
				p.locked(func() {              // no timer runs
					p.qa.postLocked(w)
					p.qa.send.empty()
				})
				e := p.completion(p.qa.send)
				if op := prm.CQE.Opcode.Get(e); op != prm.CQEReq {
					t.Fatalf("request %d: opcode = %#x, syndrome = %#x, want success", i, op, prm.CQE.Syndrome.Get(e))
				}
				p.locked(func() {
					if *seen != 3 {
						t.Errorf("request %d was sent %d times, want 3", i, *seen)
					}
				})
			}
			p.locked(func() {
				p.qb.recv.want(prm.CQERespSend, nil)
				p.qb.recv.empty()
				if v := binary.NativeEndian.Uint64(word); v != 42 {
					t.Errorf("memory after the atomic = %d, want 42", v)
				}
				if old := binary.NativeEndian.Uint64(p.a.bytes(src+100, 8)); old != 40 {
					t.Errorf("result of the atomic = %d, want 40", old)
				}
				if string(p.a.bytes(src+200, 9)) != "sent once" || string(p.b.bytes(dst+300, 9)) != "sent once" {
					t.Error("READ or WRITE transferred other data")
				}
			})
		})
	}
}

// TestRetryExceeded loses all messages. After the QP's number of attempts the request must fail
// and flush the following requests.
func TestRetryExceeded(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	seen := p.lose(1000, Lost, sends)
	start := time.Now()
	p.qa.receive(p.a.alloc(64), 64)
	p.qa.post(request1(prm.WQESend, 0, 0).inline([]byte("x")), request1(prm.WQESend, 0, 0).inline([]byte("y")))
	if s := prm.CQE.Syndrome.Get(p.completion(p.qa.send)); s != uint64(prm.SyndromeRetryExceeded) {
		t.Errorf("syndrome = %#x, want retry exceeded", s)
	}
	if s := prm.CQE.Syndrome.Get(p.completion(p.qa.send)); s != uint64(prm.SyndromeFlush) {
		t.Errorf("syndrome of the next request = %#x, want flush", s)
	}
	if s := prm.CQE.Syndrome.Get(p.completion(p.qa.recv)); s != uint64(prm.SyndromeFlush) {
		t.Errorf("syndrome of the receive = %#x, want flush", s)
	}
	p.locked(func() {
		if *seen != 3 {
			t.Errorf("the message was sent %d times, want 3", *seen)
		}
	})
	if took, least := time.Since(start), 3*(4096*time.Nanosecond<<8); took < least {
		t.Errorf("the failure took %v, want at least %v", took, least)
	}
}

// TestNobodyThere sends to a missing QP, and to an unconnected one.
func TestNobodyThere(t *testing.T) {
	for name, change := range map[string]func(p *pair){
		"no QP":           func(p *pair) { p.b.must(prm.Op2Rst, 16, nil, func(in []byte) { prm.QPIn.QPN.Set(in, uint64(p.qb.n)) }) },
		"QP in error":     func(p *pair) { p.b.must(prm.Op2Err, 16, nil, func(in []byte) { prm.QPIn.QPN.Set(in, uint64(p.qb.n)) }) },
		"link down":       func(p *pair) { p.b.d.SetPort(false) },
		"own link down":   func(p *pair) { p.a.d.SetPort(false) },
		"destroyed":       func(p *pair) { p.b.on(prm.OpDestroyQP, p.qb.n) },
		"device is reset": func(p *pair) { p.b.d.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, prm.ServiceRC, nil)
			change(p)
			p.qa.post(request1(prm.WQEWrite, signaled, 0).remote(0, 0).inline([]byte("x")))
			if s := prm.CQE.Syndrome.Get(p.completion(p.qa.send)); s != uint64(prm.SyndromeRetryExceeded) {
				t.Errorf("syndrome = %#x, want retry exceeded", s)
			}
		})
	}
}

// TestReceiverNotReady sends before receives are posted.
func TestReceiverNotReady(t *testing.T) {
	t.Run("in time", func(t *testing.T) {
		p := newPair(t, prm.ServiceRC, func(c []byte) { prm.QPC.RNRRetry.Set(c, rnrForever) })
		dst := p.b.alloc(64)
		p.qa.post(request1(prm.WQESend, signaled, 0).inline([]byte("one")), request1(prm.WQESend, signaled, 0).inline([]byte("two")))
		time.Sleep(5 * time.Millisecond)
		p.locked(func() {
			p.qa.send.empty()
			p.qb.receive(dst, 32)
			p.qb.receive(dst+32, 32)
		})
		p.completion(p.qa.send)
		p.completion(p.qa.send)
		p.locked(func() {
			if string(p.b.bytes(dst, 3)) != "one" || string(p.b.bytes(dst+32, 3)) != "two" {
				t.Error("the messages arrived in another order")
			}
		})
	})
	t.Run("too late", func(t *testing.T) {
		p := newPair(t, prm.ServiceRC, nil)
		seen := p.lose(0, Lost, sends)
		p.qa.post(request1(prm.WQESend, signaled, 0).inline([]byte("one")))
		if s := prm.CQE.Syndrome.Get(p.completion(p.qa.send)); s != uint64(prm.SyndromeRNRRetryExceeded) {
			t.Errorf("syndrome = %#x, want RNR retry exceeded", s)
		}
		p.locked(func() {
			if *seen != 3 {
				t.Errorf("the message was sent %d times, want 3", *seen)
			}
		})
	})
}

// TestDelay delays a message and an answer. Requests behind a late answer must continue, unless
// they are fenced.
func TestDelay(t *testing.T) {
	for name, tc := range map[string]struct {
		fence uint8
		early bool
	}{"no fence": {0, true}, "fence": {prm.FenceSmallAndRead << 5, false}} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, prm.ServiceRC, nil)
			src, dst := p.a.alloc(4096), p.b.alloc(4096)
			copy(p.b.bytes(dst, 8), "distant")
			late := true
			p.a.d.fabric.OnPacket(func(k *Packet) (Fate, time.Duration) {
				if k.Opcode == prm.WQERead && late {
					late = false
					return AnswerLost, 30 * time.Millisecond
				}
				return Arrives, 0
			})
			p.locked(func() { // no timer runs
				p.qa.postLocked(request1(prm.WQERead, signaled, 0).remote(dst, p.b.key).data(8, p.a.key, src),
					request1(prm.WQEWrite, signaled|tc.fence, 0).remote(dst+100, p.b.key).inline([]byte("after")))
				if got := string(p.b.bytes(dst+100, 5)) == "after"; got != tc.early {
					t.Errorf("the following WRITE has arrived: %v, want the reverse", got)
				}
				p.qa.send.empty() // completions remain in order
			})
			for _, op := range []uint64{prm.WQERead, prm.WQEWrite} {
				if e := p.completion(p.qa.send); prm.CQE.SendOpcode.Get(e) != op {
					t.Errorf("completion of opcode %#x, want %#x", prm.CQE.SendOpcode.Get(e), op)
				}
			}
			p.locked(func() {
				if string(p.a.bytes(src, 7)) != "distant" || string(p.b.bytes(dst+100, 5)) != "after" {
					t.Error("READ or WRITE transferred other data")
				}
			})
		})
	}
	t.Run("request", func(t *testing.T) {
		p := newPair(t, prm.ServiceRC, nil)
		dst := p.b.alloc(64)
		n := 0
		p.a.d.fabric.OnPacket(func(*Packet) (Fate, time.Duration) {
			if n++; n == 1 {
				return Arrives, 10 * time.Millisecond
			}
			return Arrives, 0
		})
		start := time.Now()
		p.locked(func() { // no timer runs
			p.qa.postLocked(request1(prm.WQEWrite, signaled, 0).remote(dst, p.b.key).inline([]byte("late")))
			if p.b.bytes(dst, 1)[0] != 0 {
				t.Error("the delayed message arrived at once")
			}
		})
		p.completion(p.qa.send)
		if d := time.Since(start); d < 10*time.Millisecond {
			t.Errorf("the message took %v, want at least 10 ms", d)
		}
	})
}

// TestMaxReads posts more reads than may be in flight.
func TestMaxReads(t *testing.T) {
	p := newPair(t, prm.ServiceRC, func(c []byte) { prm.QPC.LogSRAMax.Set(c, 1) })
	src, dst := p.a.alloc(4096), p.b.alloc(4096)
	n, open := 0, false
	p.a.d.fabric.OnPacket(func(k *Packet) (Fate, time.Duration) {
		if n++; !open {
			return AnswerLost, 20 * time.Millisecond
		}
		return Arrives, 0
	})
	var reads []*wqe
	for i := range 5 {
		reads = append(reads, request1(prm.WQERead, signaled, 0).remote(dst, p.b.key).data(8, p.a.key, src+uint64(8*i)))
	}
	p.locked(func() { // no timer runs
		p.qa.postLocked(reads...)
		if n != 2 {
			t.Errorf("%d reads were sent, want 2", n)
		}
		open = true
	})
	for i := range 5 {
		if e := p.completion(p.qa.send); prm.CQE.WQECounter.Get(e) != uint64(i) {
			t.Errorf("completion of WQE %#x, want %#x", prm.CQE.WQECounter.Get(e), i)
		}
	}
}

// TestPace accelerates timeouts that would take days.
func TestPace(t *testing.T) {
	p := newPair(t, prm.ServiceRC, func(c []byte) { prm.ADS.AckTimeout.Set(prm.QPC.Primary.Of(c), 31) })
	p.a.d.fabric.SetPace(1e7)
	p.lose(100, Lost, sends)
	p.qa.post(request1(prm.WQESend, 0, 0).inline([]byte("x")))
	if s := prm.CQE.Syndrome.Get(p.completion(p.qa.send)); s != uint64(prm.SyndromeRetryExceeded) {
		t.Errorf("syndrome = %#x, want retry exceeded", s)
	}
}

// TestLostAnswers loses the answers to a list of requests. Later requests must continue, and
// each repeated atomic must return its original result.
func TestLostAnswers(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	src, dst := p.a.alloc(4096), p.b.alloc(4096)
	p.lose(4, AnswerLost, sends)
	p.locked(func() { // no timer runs
		p.qa.postLocked(
			request1(prm.WQEFetchAdd, signaled, 0).remote(dst, p.b.key).atomic(5, 0).data(8, p.a.key, src),
			request1(prm.WQEFetchAdd, signaled, 0).remote(dst, p.b.key).atomic(7, 0).data(8, p.a.key, src+8),
			request1(prm.WQEFetchAdd, signaled, 0).remote(dst, p.b.key).atomic(9, 0).data(8, p.a.key, src+16),
			request1(prm.WQEWrite, signaled, 0).remote(dst+64, p.b.key).inline([]byte("behind")))
		if v := binary.NativeEndian.Uint64(p.b.bytes(dst, 8)); v != 21 || string(p.b.bytes(dst+64, 6)) != "behind" {
			t.Errorf("before any answer: memory after the atomics = %d, WRITE = %q", v, p.b.bytes(dst+64, 6))
		}
		p.qa.send.empty()
	})
	for range 4 {
		p.completion(p.qa.send)
	}
	p.locked(func() {
		for i, old := range []uint64{0, 5, 12} {
			if v := binary.NativeEndian.Uint64(p.a.bytes(src+uint64(8*i), 8)); v != old {
				t.Errorf("result of atomic %d = %d, want %d", i, v, old)
			}
		}
		if v := binary.NativeEndian.Uint64(p.b.bytes(dst, 8)); v != 21 {
			t.Errorf("memory after the atomics = %d, want 21", v)
		}
	})
}

// TestFlushedOnce moves a QP to the error state while a request is in flight.
func TestFlushedOnce(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	p.lose(1000, Lost, sends)
	p.qa.receive(p.a.alloc(64), 64)
	p.locked(func() { // no timer runs
		p.qa.postLocked(request1(prm.WQESend, 0, 0).inline([]byte("x")), request1(prm.WQESend, 0, 0).inline([]byte("y")))
		in := make([]byte, 16)
		prm.HeaderIn.Opcode.Set(in, prm.Op2Err)
		prm.QPIn.QPN.Set(in, uint64(p.qa.n))
		p.a.d.exec(in, 16)
	})
	for i := range uint64(2) {
		if e := p.completion(p.qa.send); prm.CQE.Opcode.Get(e) != prm.CQEReqErr || prm.CQE.WQECounter.Get(e) != i || prm.CQE.Syndrome.Get(e) != uint64(prm.SyndromeFlush) {
			t.Errorf("completion = %x, want the flush of request %d", e, i)
		}
	}
	if e := p.completion(p.qa.recv); prm.CQE.Opcode.Get(e) != prm.CQERespErr {
		t.Errorf("completion = %x, want the flush of the receive", e)
	}
	time.Sleep(5 * flushInterval) // in which nothing is flushed again
	p.locked(func() {
		p.qa.send.empty()
		p.qa.recv.empty()
		p.qa.receive(p.a.alloc(64), 64) // receives have no doorbell
	})
	if e := p.completion(p.qa.recv); prm.CQE.Syndrome.Get(e) != uint64(prm.SyndromeFlush) {
		t.Errorf("syndrome of a late receive = %#x, want flush", prm.CQE.Syndrome.Get(e))
	}
}

// TestConnectedToAnother sends to QPs that are connected to another QP.
func TestConnectedToAnother(t *testing.T) {
	for name, change := range map[string]func(p *pair){
		"another QP":      func(p *pair) { p.qb.connect(p.qa.n+1, p.a.gid, nil) },
		"another address": func(p *pair) { p.qb.connect(p.qa.n, [16]byte{9}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, prm.ServiceRC, nil)
			p.b.must(prm.Op2Rst, 16, nil, func(in []byte) { prm.QPIn.QPN.Set(in, uint64(p.qb.n)) })
			change(p)
			p.qa.post(request1(prm.WQEWrite, 0, 0).remote(memoryBase, p.b.key).inline([]byte("x")))
			if s := prm.CQE.Syndrome.Get(p.completion(p.qa.send)); s != uint64(prm.SyndromeRetryExceeded) {
				t.Errorf("syndrome = %#x, want retry exceeded", s)
			}
			if p.b.bytes(memoryBase, 1)[0] == 'x' {
				t.Error("the WRITE was executed")
			}
		})
	}
}

// TestFlushSeldom leaves a QP in the error state. The device must poll for requests to flush at
// increasing intervals, because many such QPs would keep it busy.
func TestFlushSeldom(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	if err := p.qa.modify(prm.Op2Err, nil); err != nil {
		t.Fatalf("p.qa.modify(Op2Err): %v", err)
	}
	time.Sleep(100 * flushInterval)
	p.locked(func() {
		if n := p.a.d.queues.objects[p.qa.n].(*qp).timer.Changes(); n > 30 {
			t.Errorf("the timer was set and stopped %d times, want at most 30", n)
		}
		p.qa.receive(memoryBase, 64)
	})
	if e := p.completion(p.qa.recv); prm.Syndrome(prm.CQE.Syndrome.Get(e)) != prm.SyndromeFlush {
		t.Errorf("completion = %x, want flush", e)
	}
}
