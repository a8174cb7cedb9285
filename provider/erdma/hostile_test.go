// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/uverbs"
)

// TestHostileContext has the kernel respond with doorbells that no kernel has.
func TestHostileContext(t *testing.T) {
	for name, set := range map[string]func(*abi.ErdmaUrespAllocCtx){
		"kind":                func(r *abi.ErdmaUrespAllocCtx) { r.SDBType = 3 },
		"entry":               func(r *abi.ErdmaUrespAllocCtx) { r.SDBType, r.SDBOffset = sdbEntry, 16 },
		"2^32-1 as the kind":  func(r *abi.ErdmaUrespAllocCtx) { r.SDBType = ^uint32(0) },
		"2^32-1 as the entry": func(r *abi.ErdmaUrespAllocCtx) { r.SDBType, r.SDBOffset = sdbEntry, ^uint32(0) },
		"negative offset":     func(r *abi.ErdmaUrespAllocCtx) { r.CDB = 1 << 63 },
		"all bits 1":          func(r *abi.ErdmaUrespAllocCtx) { r.RDB = ^uint64(0) },
	} {
		r := &rig{kernel: newKernel(t)}
		r.context = set
		if err := r.start(uverbs.NodeRNIC); !errors.Is(err, errors.ErrUnsupported) || r.mapped != 0 {
			t.Errorf("%s: Driver.Open = %v with %d pages left, want ErrUnsupported and 0", name, err, r.mapped)
		}
	}
	for name, offset := range map[string]func(*abi.ErdmaUrespAllocCtx) *uint64{
		"send":       func(r *abi.ErdmaUrespAllocCtx) *uint64 { return &r.SDB },
		"receive":    func(r *abi.ErdmaUrespAllocCtx) *uint64 { return &r.RDB },
		"completion": func(r *abi.ErdmaUrespAllocCtx) *uint64 { return &r.CDB },
	} {
		for _, at := range []uint64{0, 9 << 12, 1<<12 + 1, 1<<63 - 1} {
			r := &rig{kernel: newKernel(t)}
			r.context = func(r *abi.ErdmaUrespAllocCtx) { *offset(r) = at }
			if err := r.start(uverbs.NodeRNIC); !errors.Is(err, syscall.EINVAL) || r.mapped != 0 {
				t.Errorf("Driver.Open with %s doorbells at %#x = %v with %d pages left, want EINVAL and 0", name, at, err, r.mapped)
			}
		}
	}
	r := &rig{kernel: newKernel(t)}
	r.kernel.open = syscall.EPERM
	if err := r.start(uverbs.NodeRNIC); !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "CAP_SYS_RAWIO") {
		t.Errorf("Driver.Open without the capability = %v, want EPERM with its name", err)
	}
	if _, err := (Driver{}).open(r.f, false); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Driver.open without ordered stores = %v, want ErrUnsupported", err)
	}
}

// TestHostileQueues has the kernel respond with numbers and sizes that do not fit the memory.
func TestHostileQueues(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	cq := func() (provider.CQ, error) { return r.ctx.CreateCQ(&provider.CQConfig{Entries: 100}) }
	for i, set := range []func(*abi.ErdmaUrespCreateCQ){
		func(c *abi.ErdmaUrespCreateCQ) { c.NumCQE = 256 },
		func(c *abi.ErdmaUrespCreateCQ) { c.NumCQE = 64 },
		func(c *abi.ErdmaUrespCreateCQ) { c.NumCQE = 0 },
		func(c *abi.ErdmaUrespCreateCQ) { c.NumCQE = ^uint32(0) },
		func(c *abi.ErdmaUrespCreateCQ) { c.CQID = 1 << 24 },
		func(c *abi.ErdmaUrespCreateCQ) { c.CQID = ^uint32(0) },
	} {
		r.onCQ = set
		if _, err := cq(); !errors.Is(err, errors.ErrUnsupported) || len(r.device.cqs) != 0 {
			t.Errorf("lie %d: Context.CreateCQ = %v with %d CQs left, want ErrUnsupported and 0", i, err, len(r.device.cqs))
		}
	}
	r.onCQ = nil
	c, err := cq()
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	defer c.Close()
	qp := func(lie string, want error) {
		t.Helper()
		_, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: c, RecvCQ: c})
		if !errors.Is(err, want) || len(r.device.qps) != 0 {
			t.Errorf("%s: Context.CreateQP = %v with %d QPs left, want %v and 0", lie, err, len(r.device.qps), want)
		}
	}
	for lie, set := range map[string]func(*abi.ErdmaUrespCreateQP){
		"twice the blocks":     func(q *abi.ErdmaUrespCreateQP) { q.NumSQE *= 2 },
		"half the blocks":      func(q *abi.ErdmaUrespCreateQP) { q.NumSQE /= 2 },
		"no receives":          func(q *abi.ErdmaUrespCreateQP) { q.NumRQE = 0 },
		"2^32-1 receives":      func(q *abi.ErdmaUrespCreateQP) { q.NumRQE = ^uint32(0) },
		"another offset":       func(q *abi.ErdmaUrespCreateQP) { q.RQOffset++ },
		"no offset":            func(q *abi.ErdmaUrespCreateQP) { q.RQOffset = 0 },
		"the offset 2^32-4096": func(q *abi.ErdmaUrespCreateQP) { q.RQOffset = -doorbellPage & (1<<32 - 1) },
		"another number":       func(q *abi.ErdmaUrespCreateQP) { q.QPID++ },
	} {
		r.onQP = set
		qp(lie, errors.ErrUnsupported)
	}
	r.onQP = nil
	for _, num := range []uint32{0, 1 << 20, 1<<32 - 1} {
		r.made = num - 0x4ffff // num is assigned next
		qp(fmt.Sprintf("the number %#x", num), errors.ErrUnsupported)
	}
}

// TestRefused requests objects and sizes that the driver does not have.
func TestRefused(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	e := r.make(t, provider.QPConfig{Cap: provider.QPCap{SendWR: 3, RecvWR: 3}})
	if got, want := e.q.Cap(), (provider.QPCap{SendWR: 4, RecvWR: 4, SendSGE: maxSendSGE, RecvSGE: 1, Inline: 96}); got != want {
		t.Errorf("QP.Cap() = %+v, want %+v", got, want)
	}
	is := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s = %v, want %v", what, err, want)
		}
	}
	qp := func(cfg provider.QPConfig) error {
		cfg.PD = r.pd
		if cfg.SendCQ == nil {
			cfg.SendCQ, cfg.RecvCQ = e.c, e.c
		}
		_, err := r.ctx.CreateQP(&cfg)
		return err
	}
	is("CreateQP of UD", qp(provider.QPConfig{Type: provider.UD}), errors.ErrUnsupported)
	is("CreateQP with a foreign CQ", qp(provider.QPConfig{Type: provider.RC, SendCQ: runningCQ{}}), syscall.EINVAL)
	is("CreateQP of 8193 requests", qp(provider.QPConfig{Type: provider.RC, Cap: provider.QPCap{SendWR: 8193}}), syscall.EINVAL)
	is("CreateQP of 8193 receives", qp(provider.QPConfig{Type: provider.RC, Cap: provider.QPCap{RecvWR: 8193}}), syscall.EINVAL)
	is("CreateQP of 7 elements", qp(provider.QPConfig{Type: provider.RC, Cap: provider.QPCap{SendSGE: 7}}), syscall.EINVAL)
	for _, n := range []int{-1, 0, 1<<23 + 1} {
		_, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: n})
		is("CreateCQ", err, syscall.EINVAL)
	}
	_, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 1, Vendor: 5})
	is("CreateCQ with options", err, syscall.EINVAL)
	_, err = r.ctx.CreateAH(nil)
	is("CreateAH", err, errors.ErrUnsupported)
	_, err = r.ctx.CreateSRQ(nil)
	is("CreateSRQ", err, errors.ErrUnsupported)
	_, err = r.ctx.AllocMW(r.pd, provider.MWType1)
	is("AllocMW", err, errors.ErrUnsupported)
	is("Resize", e.c.Resize(7), errors.ErrUnsupported)
	_, err = e.q.PostSend([]provider.SendWR{{Opcode: provider.OpSend}})
	if !errors.As(err, new(*provider.QPStateError)) {
		t.Errorf("PostSend in RESET = %v, want a QPStateError", err)
	}
	e.q.SetState(provider.QPInit)
	e.recv(1)
	for _, wr := range []provider.SendWR{
		{Opcode: provider.OpRead},
		{Opcode: provider.OpFetchAdd, SGList: make([]provider.SGE, 1)},
		{Opcode: provider.OpFetchAdd, SGList: []provider.SGE{{Length: 8}}, RemoteAddr: 4},
		{Opcode: provider.OpFetchAdd, SGList: []provider.SGE{{Length: 8}, {Length: 8}}},
		{Opcode: provider.OpSend, InlineData: make([]byte, 97)},
	} {
		is("check", e.q.sq.check(&wr), syscall.EINVAL)
	}
	a, err := e.q.Query()
	if want := (provider.QPAttr{State: provider.QPInit, CurState: provider.QPInit, PathMTU: provider.MTU1024, MaxRdAtomic: 4, MaxDestRdAtomic: 3, Cap: e.q.Cap()}); err != nil || a != want {
		t.Errorf("QP.Query() = %+v, %v, want %+v, nil", a, err, want)
	}
	r.ctx.atomics = false
	plain := r.make(t, provider.QPConfig{})
	is("check of an atomic without atomics", plain.q.sq.check(&provider.SendWR{Opcode: provider.OpFetchAdd, SGList: []provider.SGE{{Length: 8}}}), errors.ErrUnsupported)
}

// TestImpossible has the device write entries that make no sense. They must be skipped, and the QP that
// they name must fail. Other QPs must not.
func TestImpossible(t *testing.T) {
	for name, e := range map[string]cqe{
		"no QP":            {qp: 7},
		"a large number":   {qp: 1<<31 + 5},
		"not posted":       {op: opSend, index: 9},
		"inside a request": {op: opSend, index: 1},
		"behind the last":  {op: opSend, index: 4},
		"no receive":       {op: opReceive, queue: queueRecv, index: 1},
		"unknown queue":    {op: opSend, queue: 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, uverbs.NodeRNIC)
			var log logged
			r.ctx.SetLog(slog.New(slog.NewTextHandler(&log, nil)))
			failures, moved := make(chan error, 2), make(chan int, 2)
			l := r.make(t, provider.QPConfig{Cap: provider.QPCap{SendWR: 4, RecvWR: 4}, Failed: func(err error, _ func() bool) {
				moved <- len(r.moved)
				failures <- err
			}})
			for _, s := range []provider.QPState{provider.QPInit, provider.QPRTR, provider.QPRTS} {
				l.q.SetState(s)
			}
			for id := range uint64(2) {
				wr := provider.SendWR{ID: id, Opcode: provider.OpWrite, Flags: provider.SendSignaled, SGList: make([]provider.SGE, 1)}
				if n, err := l.q.PostSend([]provider.SendWR{wr}); n != 1 || err != nil {
					t.Fatalf("PostSend = %d, %v, want 1, nil", n, err)
				}
			}
			l.recv(10)
			fails := e.qp == 0
			if fails {
				e.qp = l.q.num
			}
			r.device.cqs[l.c.handle].add(e)
			// The move to the error state runs on another goroutine. It may flush during this poll.
			got := ids(l.poll(4))
			if !fails && len(got) != 0 || l.c.skipped.Load() != 1 {
				t.Errorf("completed IDs = %v with %d skipped entries, want none with 1", got, l.c.skipped.Load())
			}
			if !fails {
				r.device.cqs[l.c.handle].add(cqe{op: opWrite, qp: l.q.num})
				if got := ids(l.poll(4)); !slices.Equal(got, []uint64{0}) || l.q.State() != provider.QPRTS {
					t.Errorf("completed IDs = %v in state %v, want the first in RTS", got, l.q.State())
				}
				return
			}
			for end := time.Now().Add(30 * time.Second); len(got) < 3 && time.Now().Before(end); time.Sleep(time.Millisecond) {
				if l.q.State() == provider.QPErr {
					got = append(got, ids(l.poll(4))...)
				}
			}
			if !slices.Equal(got, []uint64{0, 1, 10}) {
				t.Errorf("completed IDs = %v, want all", got)
			}
			var err error
			select {
			case err = <-failures:
				if n := <-moved; n != 0 {
					t.Errorf("Failed was called after %d moves of the QP, want 0", n)
				}
			default:
			}
			if invalid, ok := errors.AsType[*provider.InvalidCompletionError](err); !ok || invalid.QPNum != l.q.num || invalid.Reason == "" {
				t.Errorf("Failed was called with %v, want a reason and QP %#x", err, l.q.num)
			}
			if s := log.wait(); !strings.Contains(s, "completion not understood") {
				t.Errorf("log = %q, want the fault", s)
			}
		})
	}
}

// logged collects a log.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// wait returns the log when it is not empty.
func (l *logged) wait() string {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		s := l.b.String()
		l.mu.Unlock()
		if s != "" || time.Now().After(end) {
			return s
		}
	}
}

// TestCloseTakesCompletions closes a QP whose completions were not polled. The completions of another QP
// must stay, in order, at each position of the ring.
func TestCloseTakesCompletions(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	keep := r.connected(t, provider.QPCap{SendWR: 64, RecvWR: 4})
	d := r.device.cqs[keep.c.handle]
	next := uint64(0)
	for round := range 70 {
		c, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: keep.c, RecvCQ: keep.c, Cap: provider.QPCap{SendWR: 8, RecvWR: 8}})
		if err != nil {
			t.Fatalf("Context.CreateQP: %v", err)
		}
		q := c.(*qp)
		for _, s := range []provider.QPState{provider.QPInit, provider.QPRTR, provider.QPRTS} {
			q.SetState(s)
		}
		var want []uint64
		for i := range uint16(5) {
			if n, err := q.PostSend([]provider.SendWR{{ID: 1000, Opcode: provider.OpSend, Flags: provider.SendSignaled}}); n != 1 || err != nil {
				t.Fatalf("PostSend = %d, %v, want 1, nil", n, err)
			}
			d.add(cqe{op: opSend, index: i, qp: q.num})
			if int(i)%(1+round%4) == 0 {
				keep.send(next)
				d.add(cqe{op: opSend, index: uint16(next), qp: keep.q.num})
				want = append(want, next)
				next++
			}
		}
		if err := q.Close(); err != nil {
			t.Fatalf("QP.Close: %v", err)
		}
		if got := ids(keep.poll(20)); !slices.Equal(got, want) {
			t.Fatalf("round %d: completed IDs = %v, want %v", round, got, want)
		}
	}
	if n := keep.c.skipped.Load(); n != 0 {
		t.Errorf("%d entries were skipped, want 0", n)
	}
}

// TestUsedNumber has the kernel assign a number that a QP of the context has.
func TestUsedNumber(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	e := r.make(t, provider.QPConfig{})
	r.made--
	if _, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: e.c, RecvCQ: e.c}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Context.CreateQP with a used number = %v, want ErrUnsupported", err)
	}
	if r.ctx.qps.find(e.q.num) != e.q {
		t.Errorf("table.find(%#x) does not find the first QP", e.q.num)
	}
}

// TestReusedNumber has the kernel assign the number of a QP again while Close of that QP runs.
func TestReusedNumber(t *testing.T) {
	r := newRig(t, uverbs.NodeRNIC)
	c, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 64})
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	defer c.Close()
	old := r.make(t, provider.QPConfig{})
	var next provider.QP
	answered, created := make(chan struct{}), make(chan error)
	r.onQP = func(*abi.ErdmaUrespCreateQP) { close(answered) }
	r.onEnd = func() {
		r.onEnd = nil
		r.made--
		go func() {
			var err error
			next, err = r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: c, RecvCQ: c})
			created <- err
		}()
		<-answered
		time.Sleep(10 * time.Millisecond) // CreateQP comes first
	}
	if err := old.q.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	if err := <-created; err != nil {
		t.Fatalf("Context.CreateQP = %v, want nil", err)
	}
	if next.Num() != old.q.num || provider.QP(r.ctx.qps.find(old.q.num)) != next {
		t.Errorf("QP.Num() = %#x, and table.find(%#x) = %p, want QP %p with the number", next.Num(), old.q.num, r.ctx.qps.find(old.q.num), next)
	}
	if err := next.Close(); err != nil {
		t.Errorf("QP.Close of the second QP: %v", err)
	}
}

// FuzzPoll polls entries with arbitrary contents. Each request completes at most once.
func FuzzPoll(f *testing.F) {
	f.Add(make([]byte, 64), uint8(3))
	seed := make([]byte, 5*blockSize)
	for i := range 5 {
		b := seed[i*blockSize:]
		binary.BigEndian.PutUint32(b, 1<<31|uint32(i%3)<<8|2<<16)
		binary.BigEndian.PutUint32(b[4:], uint32(i))
		binary.BigEndian.PutUint32(b[8:], 0x4ffff)
	}
	f.Add(seed, uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, max uint8) {
		r := newRig(t, uverbs.NodeRNIC)
		e := r.connected(t, provider.QPCap{SendWR: 8, RecvWR: 8})
		e.send(1, 2, 3)
		e.recv(11, 12)
		copy(e.c.region.Bytes(), b)
		seen := map[uint64]bool{}
		wcs := make([]provider.WC, 1+max%8)
		for range 2 * e.c.entries {
			n, err := e.c.Poll(wcs)
			if err != nil {
				t.Fatalf("CQ.Poll: %v", err)
			}
			for _, w := range wcs[:n] {
				if w.ID == 0 || seen[w.ID] {
					t.Fatalf("completion = %+v, want each posted ID at most once", w)
				}
				seen[w.ID] = true
			}
		}
	})
}

// TestResetDuringReport resets a failing QP of RoCE before Failed returns. Only a new failure moves the QP to the error
// state.
func TestResetDuringReport(t *testing.T) {
	r := newRig(t, uverbs.NodeCA)
	reports, finish := make(chan func() bool), make(chan struct{})
	l := r.make(t, provider.QPConfig{Cap: provider.QPCap{SendWR: 4, RecvWR: 4}, Failed: func(_ error, fails func() bool) {
		reports <- fails
		<-finish
	}})
	fail := func() func() bool {
		for _, s := range []provider.QPState{provider.QPInit, provider.QPRTR, provider.QPRTS} {
			l.q.SetState(s)
		}
		r.device.cqs[l.c.handle].add(cqe{op: opSend, index: 9, qp: l.q.num})
		if got := ids(l.poll(4)); len(got) != 0 {
			t.Errorf("completed IDs = %v, want none", got)
		}
		return <-reports
	}
	first := fail()
	if !first() {
		t.Error("fails() of the first failure = false, want true before the reset")
	}
	if err := l.q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
		t.Fatalf("QP.Modify(RESET) = %v", err)
	}
	second := fail()
	if first() || !second() {
		t.Errorf("fails() after the reset = %v, %v, want false, true", first(), second())
	}
	finish <- struct{}{} // one of the two calls of Failed returns
	if first() {
		t.Error("fails() of the first failure = true after the reset")
	}
	finish <- struct{}{}
	for end := time.Now().Add(30 * time.Second); l.q.State() != provider.QPErr && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if s := l.q.State(); s != provider.QPErr || second() {
		t.Errorf("State() = %v, fails() = %v, want the error state and false", s, second())
	}
}
