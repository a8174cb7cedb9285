// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"purerdma/inflight"
	"purerdma/pool"
	"purerdma/verbs"
)

// recvRig is a Receiver on a stubQP, with a pool.
type recvRig struct {
	*rig
	pool *pool.Pool
	recv *inflight.Receiver
	from *stubRecvs // where its receives are posted
	sent uint32
}

func newPool(t testing.TB, pd *verbs.PD, bytes int) *pool.Pool {
	t.Helper()
	p, err := pool.New(pd, pool.Config{MaxBytes: bytes, SlabSize: min(bytes, 1<<16)})
	if err != nil {
		t.Fatalf("pool.New() = %v", err)
	}
	return p
}

// newRecvRig makes a Receiver with receives of 256 bytes, and a pool of so many bytes.
func newRecvRig(t testing.TB, depth, bytes int) *recvRig {
	t.Helper()
	r := &recvRig{rig: newRig(t, inflight.Config{}, verbs.QPConfig{})}
	r.pool = newPool(t, r.pd, bytes)
	t.Cleanup(func() { r.emptied(t) })
	var err error
	if r.recv, err = inflight.NewReceiver(r.qp, r.pool, inflight.ReceiveConfig{Size: 256, Depth: depth}); err != nil {
		t.Fatalf("NewReceiver() = %v", err)
	}
	r.from = &r.hw.own
	return r
}

// emptied closes the QP, and checks that all memory comes back to the pool.
func (r *recvRig) emptied(t testing.TB) {
	t.Helper()
	if err := r.qp.Close(); err != nil {
		t.Errorf("QP.Close() = %v", err)
	}
	for end := time.Now().Add(10 * time.Second); r.pool.Stats().InUse > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("Stats() = %+v after the close of the QP, want nothing in use", r.pool.Stats())
			break
		}
	}
	if err := r.pool.Close(); err != nil {
		t.Errorf("Pool.Close() = %v", err)
	}
}

// memory returns the bytes of a receive.
func memory(wr verbs.RecvWR) []byte {
	s := wr.SGList[0]
	return unsafe.Slice((*byte)(unsafe.Add(nil, int(s.Addr))), s.Length)
}

// arrive has the next message of the rig arrive in the oldest receive. The message is its
// number.
func (r *recvRig) arrive(t testing.TB) {
	t.Helper()
	wr := r.from.pop(t)
	binary.LittleEndian.PutUint32(memory(wr), r.sent)
	r.hw.recvCQ.put(r.received(wr, 4))
	r.sent++
}

func (r *recvRig) received(wr verbs.RecvWR, n uint32) verbs.WC {
	return verbs.WC{ID: wr.ID, Opcode: verbs.WCRecv, QPNum: r.qp.Num(), ByteLen: n}
}

// take receives a message and compares its number.
func (r *recvRig) take(t testing.TB, want uint32) *inflight.Message {
	t.Helper()
	m, err := r.recv.Receive(soon(t))
	if err != nil {
		t.Fatalf("Receive() = %v, want message %d", err, want)
	}
	if got := m.Bytes(); len(got) != 4 || binary.LittleEndian.Uint32(got) != want {
		t.Fatalf("Receive() = % x, want message %d", got, want)
	}
	return m
}

// TestReceive receives messages in their order, with and without a waiting call. Each buffer takes
// messages again after Free.
func TestReceive(t *testing.T) {
	r := newRecvRig(t, 8, 1<<16)
	if n := r.from.count(); n != 8 {
		t.Fatalf("%d receives are posted, want 8", n)
	}
	for range 3 {
		r.arrive(t)
	}
	for i := range uint32(3) {
		r.take(t, i).Free()
	}
	for i := range uint32(100) {
		got := make(chan *inflight.Message)
		go func() {
			m, err := r.recv.Receive(context.Background())
			if err != nil {
				t.Errorf("Receive() = %v", err)
			}
			got <- m
		}()
		if i%2 == 0 {
			time.Sleep(time.Millisecond) // the call waits
		}
		r.arrive(t)
		m := <-got
		if m == nil {
			t.FailNow()
		}
		if n := binary.LittleEndian.Uint32(m.Bytes()); n != 3+i {
			t.Errorf("Receive() = message %d, want %d", n, 3+i)
		}
		if wc := m.WC(); wc.QPNum != r.qp.Num() || wc.ByteLen != 4 {
			t.Errorf("WC() = %+v, want 4 bytes of QP %d", wc, r.qp.Num())
		}
		m.Ref().Free()
		m.Free()
	}
	if s := r.pool.Stats(); s.InUse > 8*256 {
		t.Errorf("Stats() = %+v, want the memory of 8 receives", s)
	}
}

// TestHeldMessages keeps all messages. The Receiver takes further memory from the pool until the
// pool has none, and goes on when messages are freed.
func TestHeldMessages(t *testing.T) {
	r := newRecvRig(t, 8, 1<<14) // 64 buffers
	var kept []*inflight.Message
	for r.from.count() > 0 {
		r.arrive(t)
		kept = append(kept, r.take(t, uint32(len(kept))))
	}
	if n := len(kept); n < 60 || n > 64 {
		t.Errorf("%d messages have arrived, want as many as fit into the pool, 64", n)
	}
	for i, m := range kept {
		if got := binary.LittleEndian.Uint32(m.Bytes()); got != uint32(i) {
			t.Errorf("message %d has the bytes of message %d", i, got)
		}
		m.Free()
	}
	if n := r.from.count(); n < 4 || n > 8 {
		t.Errorf("%d receives are posted after all messages were freed, want about 8", n)
	}
	r.arrive(t)
	r.take(t, uint32(len(kept))).Free()
}

// TestOddReceives passes completions to the Receiver that its receives cannot have.
func TestOddReceives(t *testing.T) {
	r := newRecvRig(t, 4, 1<<16)
	wr := r.from.pop(t)
	binary.LittleEndian.PutUint32(memory(wr), 7)
	good := r.received(wr, 4)
	for name, change := range map[string]func(*verbs.WC){
		"number":     func(wc *verbs.WC) { wc.ID |= 1 << 20 },
		"generation": func(wc *verbs.WC) { wc.ID ^= 1 << 32 },
		"index":      func(wc *verbs.WC) { wc.ID ^= 1 << 60 },
	} {
		odd := good
		change(&odd)
		r.hw.recvCQ.put(odd)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		if m, err := r.recv.Receive(ctx); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Receive() after a wrong %s = %v, %v, want os.ErrDeadlineExceeded", name, m, err)
		}
		cancel()
	}
	var wcs [4]verbs.WC // an unknown index may be the program's
	if _, err := r.qp.RecvCQ().Poll(wcs[:]); err != nil {
		t.Errorf("Poll() = %v", err)
	}
	long := good
	long.ByteLen = 1 << 31
	r.hw.recvCQ.put(long, good, good)
	m, err := r.recv.Receive(soon(t))
	if err != nil || m.Len() != 256 || len(m.Bytes()) != 256 {
		t.Fatalf("Receive() of too many bytes = %v, %v, want a message of 256 bytes", m, err)
	}
	m.Free()
	write := r.received(r.from.pop(t), 200)
	write.Opcode, write.ImmData = verbs.WCRecvWriteImm, 9
	r.hw.recvCQ.put(write)
	m, err = r.recv.Receive(soon(t))
	if err != nil || m.Len() != 0 || len(m.Bytes()) != 0 || m.WC().ImmData != 9 {
		t.Fatalf("Receive() of a WRITE with immediate data = %v, %v, want no bytes and the data 9", m, err)
	}
	m.Free()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	if m, err := r.recv.Receive(ctx); err == nil {
		t.Errorf("Receive() = %v, want no message for a second completion of one receive", m)
	}
	other := r.received(r.from.pop(t), 4)
	other.QPNum++
	r.hw.recvCQ.put(other)
	r.sent = 8
	r.arrive(t)
	r.take(t, 8).Free()
}

// TestReceiveFailure fails a receive. Earlier messages are received, and then its error. No receive is
// posted after it.
func TestReceiveFailure(t *testing.T) {
	r := newRecvRig(t, 4, 1<<16)
	r.arrive(t)
	failed := r.received(r.from.pop(t), 0)
	failed.Status = verbs.WCLocLenErr
	flushed := r.received(r.from.pop(t), 0)
	flushed.Status = verbs.WCWRFlushErr
	r.hw.recvCQ.put(failed, flushed)
	r.take(t, 0).Free()
	for range 2 {
		var wc *verbs.WCError
		if m, err := r.recv.Receive(soon(t)); !errors.As(err, &wc) || wc.Status != verbs.WCLocLenErr {
			t.Errorf("Receive() = %v, %v, want the status %v", m, err, verbs.WCLocLenErr)
		}
	}
	if n := r.from.count(); n != 1 {
		t.Errorf("%d receives are posted, want the last one", n)
	}
}

// TestReceiverEnds closes the QP while a call waits and a message is held.
func TestReceiverEnds(t *testing.T) {
	r := newRecvRig(t, 4, 1<<16)
	r.arrive(t)
	held := r.take(t, 0)
	r.arrive(t)
	waits := make(chan error)
	r.take(t, 1).Free()
	go func() {
		_, err := r.recv.Receive(context.Background())
		waits <- err
	}()
	sleep()
	if err := r.qp.Close(); err != nil {
		t.Fatalf("QP.Close() = %v", err)
	}
	if err := <-waits; !errors.Is(err, net.ErrClosed) {
		t.Errorf("waiting Receive = %v, want net.ErrClosed", err)
	}
	if got := binary.LittleEndian.Uint32(held.Bytes()); got != 0 {
		t.Errorf("a message after the close of its QP = %d, want 0", got)
	}
	held.Free()
}

// TestHandle has a function take the messages, while other goroutines also poll. It gets them in their
// order, one at a time, and at last the end.
func TestHandle(t *testing.T) {
	r := newRecvRig(t, 64, 1<<16)
	var next, at atomic.Uint32
	over := make(chan error, 2)
	r.recv.Handle(func(m *inflight.Message, err error) {
		if at.Add(1) != 1 {
			t.Error("two calls of the function at a time")
		}
		defer at.Add(^uint32(0))
		if err != nil {
			over <- err
			return
		}
		if got := binary.LittleEndian.Uint32(m.Bytes()); got != next.Load() {
			t.Errorf("message %d, want %d", got, next.Load())
		}
		next.Add(1)
		m.Free()
	})
	var pollers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		pollers.Go(func() {
			var wcs [4]verbs.WC
			for {
				select {
				case <-stop:
					return
				default:
				}
				if n, err := r.qp.RecvCQ().Poll(wcs[:]); n > 0 || err != nil {
					t.Errorf("Poll() = %d, %v, want none of the Receiver's", n, err)
				}
				time.Sleep(10 * time.Microsecond)
			}
		})
	}
	const messages = 2000
	for sent := 0; sent < messages; {
		if r.from.count() == 0 {
			time.Sleep(10 * time.Microsecond)
			continue
		}
		r.arrive(t)
		sent++
	}
	for end := time.Now().Add(10 * time.Second); next.Load() < messages && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	close(stop)
	pollers.Wait()
	if got := next.Load(); got != messages {
		t.Errorf("the function got %d messages, want %d", got, messages)
	}
	if m, err := r.recv.Receive(soon(t)); err == nil {
		t.Errorf("Receive() beside Handle = %v, want an error", m)
	}
	if err := r.qp.Close(); err != nil {
		t.Errorf("QP.Close() = %v", err)
	}
	if err := <-over; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the end = %v, want net.ErrClosed", err)
	}
	sleep()
	if len(over) > 0 {
		t.Errorf("a second end = %v", <-over)
	}
}

// sharedRig has two QPs on one SRQ.
func sharedRig(t testing.TB, cfg inflight.ReceiveConfig) (*inflight.SharedReceives, [2]*recvRig) {
	t.Helper()
	first := newRig(t, inflight.Config{}, verbs.QPConfig{})
	p := newPool(t, first.pd, 1<<16)
	s, err := inflight.NewSharedReceives(p, cfg)
	if err != nil {
		t.Fatalf("NewSharedReceives(%+v) = %v", cfg, err)
	}
	poller, err := inflight.NewPoller(first.dev, inflight.PollerConfig{CQEntries: 1024})
	if err != nil {
		t.Fatalf("NewPoller() = %v", err)
	}
	var rigs [2]*recvRig
	for i := range rigs {
		rigs[i] = sharingRig(t, first, s, poller)
		rigs[i].pool = p
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("SharedReceives.Close() = %v", err)
		}
		for _, r := range slices.Backward(rigs[:]) {
			if err := r.qp.Close(); err != nil {
				t.Errorf("QP.Close() = %v", err)
			}
		}
		rigs[0].emptied(t)
		if err := poller.Close(); err != nil {
			t.Errorf("Poller.Close() = %v", err)
		}
	})
	return s, rigs
}

// sharingRig makes a QP on an SRQ.
func sharingRig(t testing.TB, first *rig, s *inflight.SharedReceives, poller *inflight.Poller) *recvRig {
	t.Helper()
	qp, err := poller.CreateQP(first.pd, verbs.QPConfig{SRQ: s.SRQ()})
	if err != nil {
		t.Fatalf("CreateQP() = %v", err)
	}
	recv, err := s.Receiver(qp)
	if err != nil {
		t.Fatalf("Receiver() = %v", err)
	}
	return &recvRig{
		rig:  &rig{qp: qp, hw: qp.Provider().(*stubQP), dev: first.dev, pd: first.pd},
		recv: recv, from: &s.SRQ().Provider().(*stubSRQ).stubRecvs,
	}
}

// TestSharedReceives passes each message to the Receiver of its QP, and bounds the messages that a
// Receiver holds.
func TestSharedReceives(t *testing.T) {
	_, rigs := sharedRig(t, inflight.ReceiveConfig{Size: 256, Depth: 16, MaxHeld: 4})
	if a, b := rigs[0].qp.SendCQ(), rigs[1].qp.RecvCQ(); a != b {
		t.Errorf("CQs of the QPs = %p and %p, want one", a, b)
	}
	for i := range uint32(40) {
		r := rigs[i%2]
		r.arrive(t)
		r.take(t, i/2).Free()
	}
	greedy, modest := rigs[0], rigs[1]
	if err := greedy.qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState|verbs.QPAttrPort|verbs.QPAttrPKeyIndex|verbs.QPAttrAccess); err != nil {
		t.Fatalf("Modify() = %v", err)
	}
	var held []*inflight.Message
	for range 4 {
		greedy.arrive(t)
		held = append(held, greedy.take(t, greedy.sent-1))
	}
	greedy.arrive(t)
	if m, err := greedy.recv.Receive(soon(t)); err == nil {
		t.Errorf("Receive() with four held messages = %v, want an error", m)
	}
	for end := time.Now().Add(10 * time.Second); greedy.qp.State() != verbs.QPErr; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("State() of the QP with too many messages = %v, want %v", greedy.qp.State(), verbs.QPErr)
		}
	}
	for range 20 {
		modest.arrive(t)
		modest.take(t, modest.sent-1).Free()
	}
	for _, m := range held {
		m.Free()
	}
}

// TestUseOfReceivers has goroutines receive with contexts that end, hold messages and free them in any
// order, while messages come and one of two QPs closes.
func TestUseOfReceivers(t *testing.T) {
	for seed := range uint64(10) {
		_, rigs := sharedRig(t, inflight.ReceiveConfig{Size: 256, Depth: 16, MaxHeld: 1000})
		rng := rand.New(rand.NewPCG(seed, 0))
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		var got [2]atomic.Uint32
		for g := range 6 {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(1+g)))
				r := rigs[g%2]
				var held []*inflight.Message
				for ctx.Err() == nil {
					short, cancel := context.WithTimeout(ctx, time.Duration(rng.IntN(200))*time.Microsecond)
					m, err := r.recv.Receive(short)
					cancel()
					if err == nil {
						got[g%2].Add(1)
						held = append(held, m)
					} else if errors.Is(err, net.ErrClosed) {
						break
					}
					if len(held) > rng.IntN(4) {
						i := rng.IntN(len(held))
						held[i].Free()
						held = slices.Delete(held, i, i+1)
					}
				}
				for _, m := range held {
					m.Free()
				}
			})
		}
		const messages = 500
		for i := 0; i < messages; {
			if rigs[0].from.count() == 0 {
				time.Sleep(10 * time.Microsecond)
				continue
			}
			r := rigs[1]
			if i < messages/2 {
				r = rigs[rng.IntN(2)]
			}
			if i++; i == messages/2 {
				if err := rigs[0].qp.Close(); err != nil {
					t.Errorf("QP.Close() = %v", err)
				}
			}
			r.arrive(t)
		}
		for end := time.Now().Add(10 * time.Second); got[1].Load() < rigs[1].sent && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		cancel()
		all.Wait()
		if n := got[1].Load(); n != rigs[1].sent {
			t.Errorf("seed %d: %d messages of the open QP were received, want %d", seed, n, rigs[1].sent)
		}
	}
}

// TestReceiveAllocatesNothing receives and frees messages without allocation.
func TestReceiveAllocatesNothing(t *testing.T) {
	r := newRecvRig(t, 8, 1<<16)
	ctx := context.Background()
	n := testing.AllocsPerRun(100, func() {
		wr := r.from.recvs[0]
		r.from.recvs = append(r.from.recvs[:0], r.from.recvs[1:]...)
		wc := [1]verbs.WC{r.received(wr, 4)}
		r.hw.recvCQ.put(wc[:]...)
		m, err := r.recv.Receive(ctx)
		if err != nil {
			t.Fatalf("Receive() = %v", err)
		}
		m.Free()
	})
	// The stub allocates the copies of the requests that it keeps: one for each receive.
	if n > 1 {
		t.Errorf("a message costs %v allocations, want the 1 of the stub", n)
	}
}

// TestHandleOnADeadCQ has the receive CQ of a Receiver fail. The function is called for the last time, and the CQ takes
// no other Receiver.
func TestHandleOnADeadCQ(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond} {
		r := newRecvRig(t, 4, 1<<16)
		ended := make(chan error, 1)
		fn := func(m *inflight.Message, err error) {
			if m != nil {
				m.Free()
				return
			}
			ended <- err
		}
		if after == 0 {
			r.recv.Handle(fn)
		} else {
			r.recv.HandleLazily(fn, after)
		}
		r.arrive(t)
		r.hw.recvCQ.mu.Lock()
		r.hw.recvCQ.fail = syscall.EIO
		r.hw.recvCQ.mu.Unlock()
		r.hw.recvCQ.put()
		if err := early(ended); !errors.Is(err, syscall.EIO) {
			t.Errorf("the last call of the function has the error %v, want %v", err, syscall.EIO)
		}
		if _, err := r.recv.Receive(soon(t)); !errors.Is(err, syscall.EIO) {
			t.Errorf("Receive() = %v, want %v", err, syscall.EIO)
		}
		if _, err := inflight.NewReceiver(r.qp, r.pool, inflight.ReceiveConfig{Size: 256, Depth: 4}); !errors.Is(err, syscall.EIO) {
			t.Errorf("NewReceiver() = %v, want %v", err, syscall.EIO)
		}
	}
}
