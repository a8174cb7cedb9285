// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/uverbs"
)

// TestRegionTable adds and removes regions at random, with keys that are reused immediately,
// and checks that exactly the existing regions are found.
func TestRegionTable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var r regions
	live := map[uint32]*region{}
	var order []uint32
	for step := range 200_000 {
		switch most := 1 + step/100; {
		case len(order) < most && rnd.IntN(3) > 0 || len(order) == 0:
			key := uint32(rnd.IntN(5000))<<8 | uint32(rnd.IntN(2))
			if live[key] != nil {
				continue
			}
			live[key] = &region{key: uint64(key)}
			order = append(order, key)
			r.add(live[key])
		default:
			i := rnd.IntN(len(order))
			key := order[i]
			order[i] = order[len(order)-1]
			order = order[:len(order)-1]
			r.remove(live[key])
			delete(live, key)
			if m := r.find(key); m != nil {
				t.Fatalf("step %d: find(%#x) = %+v after remove, want nil", step, key, m)
			}
		}
		if key := uint32(rnd.IntN(5000)) << 8; r.find(key) != live[key] {
			t.Fatalf("step %d: find(%#x) = %p, want %p", step, key, r.find(key), live[key])
		}
	}
	if r.live != len(live) {
		t.Errorf("%d regions, want %d", r.live, len(live))
	}
}

// TestManyRegions counts the tables that many registrations create. Copying a table takes time
// in proportion to the number of regions. Therefore only one copy is allowed each time the
// number doubles.
func TestManyRegions(t *testing.T) {
	const n = 100_000
	var r regions
	copies := 0
	var last *regionTable
	add := func(m *region) {
		r.add(m)
		if table := r.table.Load(); table != last {
			copies++
			last = table
		}
	}
	all := make([]*region, n)
	for i := range all {
		all[i] = &region{key: uint64(i) << 8}
		add(all[i])
	}
	if copies > 17 {
		t.Errorf("%d tables for %d regions, want at most 17", copies, n)
	}
	for i, m := range all {
		if got := r.find(uint32(i) << 8); got != m {
			t.Fatalf("find(%#x) = %p, want %p", i<<8, got, m)
		}
	}
	copies = 0
	for i, m := range all {
		r.remove(m)
		add(&region{key: uint64(i)<<8 | 1})
	}
	if copies > 3 {
		t.Errorf("%d tables while each of %d regions is replaced, want at most 3", copies, n)
	}
	if size := len(r.table.Load().slots); size > 8*n {
		t.Errorf("%d slots for %d regions, want at most 8 per region", size, n)
	}
}

// TestRegions registers, changes and closes a memory region, also when the kernel refuses.
func TestRegions(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	p, other := r.pd.(*pd), allocPD(t, r.ctx)
	b := make([]byte, 100)
	cfg := provider.MRConfig{PD: r.pd, Mem: b, IOVA: 1000, Access: provider.RemoteRead}
	m, err := r.ctx.RegMR(&cfg)
	if err != nil {
		t.Fatalf("Context.RegMR: %v", err)
	}
	key := m.LKey()
	// write writes v to an address by the key, and reports whether that was possible.
	write := func(p *pd, addr uint64, v byte) bool {
		k := p.regions.find(key)
		return k != nil && k.write(addr, []byte{v})
	}
	if write(p, 1000, 1) {
		t.Error("memory without LocalWrite was written")
	}
	cfg.Access, cfg.Mem, cfg.IOVA = provider.LocalWrite, b[:50], 7
	if err := m.Reregister(&cfg, provider.MRAccess); err != nil {
		t.Fatalf("MR.Reregister: %v", err)
	}
	if !write(p, 1099, 9) || b[99] != 9 {
		t.Error("the last byte was not written after LocalWrite was added")
	}
	if err := m.Reregister(&cfg, provider.MRMem); err != nil {
		t.Fatalf("MR.Reregister: %v", err)
	}
	if write(p, 57, 9) || !write(p, 56, 8) || b[49] != 8 {
		t.Errorf("byte 49 is %d after the memory was changed to 50 bytes", b[49])
	}
	cfg.PD = other
	if err := m.Reregister(&cfg, provider.MRPD); err != nil {
		t.Fatalf("MR.Reregister: %v", err)
	}
	if write(p, 56, 7) || !write(other, 56, 7) || b[49] != 7 {
		t.Error("the region does not belong to the other PD after Reregister")
	}
	cfg.PD = p
	r.before = func(*uverbs.Request) error { return syscall.EBUSY }
	if err := m.Reregister(&cfg, provider.MRMem|provider.MRPD); err == nil || !write(other, 56, 6) || other.regions.live != 1 {
		t.Errorf("Reregister = %v with %d regions, want an error and 1", err, other.regions.live)
	}
	if err := m.Close(); err == nil || !write(other, 56, 5) {
		t.Errorf("Close = %v, want an error, and the region there", err)
	}
	if _, err := r.ctx.RegMR(&cfg); err == nil || p.regions.live != 0 {
		t.Errorf("RegMR = %v with %d regions, want an error and 0", err, p.regions.live)
	}
	r.before = nil
	if err := m.Close(); err != nil || write(other, 56, 4) || other.regions.live != 0 {
		t.Errorf("Close = %v with %d regions, want 0", err, other.regions.live)
	}
}

// TestReusedKey has the kernel assign the key of a region to another one before the table has lost
// the first.
func TestReusedKey(t *testing.T) {
	var r regions
	var all []*region
	for i := range uint64(20) { // with the other regions in all places of the search
		all = append(all, &region{key: i << 8})
		r.add(all[i])
	}
	for i, old := range all {
		r.remove(all[(i+1)%len(all)]) // its slot is free
		next := &region{key: old.key}
		r.add(next)
		for range 2 {
			if got := r.find(uint32(old.key)); got != next {
				t.Errorf("find(%#x) = %p, want the new region %p", old.key, got, next)
			}
			r.remove(old)
		}
		if r.live != len(all)-1 {
			t.Errorf("%d regions, want %d", r.live, len(all)-1)
		}
		r.remove(next)
		if got := r.find(uint32(old.key)); got != nil {
			t.Errorf("find(%#x) = %p after remove, want nil", old.key, got)
		}
		r.add(old)
		r.add(all[(i+1)%len(all)])
	}
}

// TestDataDuringCommand polls messages with data while the kernel deregisters or changes their
// memory region. The data are in the memory, whether the kernel then refuses the command or not. The
// last message comes after the command has been executed and before the call returns.
func TestDataDuringCommand(t *testing.T) {
	for name, change := range map[string]func(m provider.MR, cfg *provider.MRConfig) error{
		"Close":      func(m provider.MR, _ *provider.MRConfig) error { return m.Close() },
		"Reregister": func(m provider.MR, cfg *provider.MRConfig) error { return m.Reregister(cfg, provider.MRAccess) },
	} {
		r := newCQRig(t, provider.CQConfig{})
		q := r.qp(provider.RC, nil)
		b := make([]byte, 64)
		cfg := provider.MRConfig{PD: r.pd, Mem: b, IOVA: 0x1000, Access: provider.LocalWrite}
		mr, err := r.ctx.RegMR(&cfg)
		if err != nil {
			t.Fatalf("Context.RegMR: %v", err)
		}
		// receive gets a message of 16 bytes.
		receive := func(when string) {
			clear(b)
			e := q.recvCQE(q.recvPosted(t, 5, provider.SGE{Addr: 0x1000, Length: 64, LKey: mr.LKey()}))
			e.Format, e.ByteCount, e.Data = formatScatter32, 16, pattern(16)
			r.put(e)
			if wc := r.one(); wc.Status != provider.WCSuccess || !bytes.Equal(b[:16], pattern(16)) {
				t.Errorf("completion %s of %s = %+v with % x, want success with % x", when, name, wc, b[:16], pattern(16))
			}
		}
		r.before = func(*uverbs.Request) error {
			receive("during a refused command")
			return syscall.EBUSY
		}
		if err := change(mr, &cfg); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("%s that the kernel refuses = %v, want EBUSY", name, err)
		}
		r.before = func(*uverbs.Request) error {
			receive("before the command")
			return nil
		}
		r.after = func(*uverbs.Request) { receive("after the command") }
		if err := change(mr, &cfg); err != nil {
			t.Errorf("%s = %v, want nil", name, err)
		}
		r.before, r.after = nil, nil
	}
}

// TestDataOfAnotherPD checks that data for a region of another PD than the queue's are refused,
// as the device refuses data that it writes itself. Receives of an SRQ have the PD of the SRQ.
func TestDataOfAnotherPD(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	own, other := r.pd, allocPD(t, r.ctx)
	srq := r.srq(provider.SRQConfig{MaxWR: 10, MaxSGE: 1})
	q := r.qp(provider.RC, nil)
	r.pd = other
	onSRQ := r.qp(provider.RC, srq) // whose PD differs from the SRQ's
	for _, tc := range []struct {
		name string
		pd   provider.PD
		want provider.WCStatus // for a QP of own, and for receives of an SRQ of own
	}{
		{"own", own, provider.WCSuccess},
		{"another", other, provider.WCLocProtErr},
	} {
		r.pd = tc.pd
		lkey, _ := r.region(64, 0x1000)
		sge := provider.SGE{Addr: 0x1000, Length: 16, LKey: lkey}
		for range 2 { // with the general decoder, and with the fast one
			for name, e := range map[string]*mlx5test.CQE{
				"receive":        q.recvCQE(q.recvPosted(t, 5, sge)),
				"READ":           q.sendCQE(q.readWQE(opcodeRead, 5, sge), opcodeRead),
				"receive of SRQ": onSRQ.recvCQE(r.postSRQ(srq, 5, sge)),
			} {
				e.Format, e.ByteCount, e.Data = formatScatter32, 16, pattern(16)
				r.put(e)
				if got := r.one(); got.ID != 5 || got.Status != tc.want {
					t.Errorf("%s with the key of %s PD: completion = %v of request %d, want %v of request 5", name, tc.name, got.Status, got.ID, tc.want)
				}
			}
		}
	}
}

// TestQueuesOfPD checks that a PD counts the queues whose completions name memory of the PD. It
// counts a queue until the queue is closed, and does not count queues that the kernel refused.
func TestQueuesOfPD(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	p, other := allocPD(t, r.ctx), allocPD(t, r.ctx)
	send, _ := r.newCQ(provider.CQConfig{Entries: 15})
	recv, _ := r.newCQ(provider.CQConfig{Entries: 15})
	x, err := r.ctx.OpenXRCD(-1, 0)
	if err != nil {
		t.Fatalf("Context.OpenXRCD(-1, 0): %v", err)
	}
	t.Cleanup(func() { x.Close() })
	r.pd = other
	srq := r.srq(provider.SRQConfig{MaxWR: 4, MaxSGE: 1})
	size := provider.QPCap{SendWR: 4, RecvWR: 4, SendSGE: 1, RecvSGE: 1}
	qp := func(cfg provider.QPConfig) func() (interface{ Close() error }, error) {
		cfg.PD, cfg.SendCQ, cfg.RecvCQ, cfg.Cap = p, send, recv, size
		return func() (interface{ Close() error }, error) { return r.ctx.CreateQP(&cfg) }
	}
	type counts = map[*CQ]int
	for name, tc := range map[string]struct {
		create    func() (interface{ Close() error }, error)
		pd, srqPD counts
	}{
		"RC":        {qp(provider.QPConfig{Type: provider.RC}), counts{send: 1, recv: 1}, counts{}},
		"RC on SRQ": {qp(provider.QPConfig{Type: provider.RC, SRQ: srq}), counts{send: 1}, counts{recv: 1}},
		"XRC_SEND":  {qp(provider.QPConfig{Type: provider.XRCSend}), counts{send: 1}, counts{}},
		"XRC_RECV":  {qp(provider.QPConfig{Type: provider.XRCRecv, XRCD: x}), counts{}, counts{}},
		"DCI": {func() (interface{ Close() error }, error) {
			return r.ctx.CreateDCI(&DCIConfig{PD: p, CQ: send, Cap: size})
		}, counts{send: 2}, counts{}},
		"DCT": {func() (interface{ Close() error }, error) {
			return r.ctx.CreateDCT(&DCTConfig{PD: p, CQ: send, SRQ: srq})
		}, counts{send: 1}, counts{send: 1}},
		"XRC SRQ": {func() (interface{ Close() error }, error) {
			return r.ctx.CreateSRQ(&provider.SRQConfig{PD: p, MaxWR: 4, MaxSGE: 1, XRCD: x, CQ: recv})
		}, counts{recv: 1}, counts{}},
	} {
		r.before = func(*uverbs.Request) error { return syscall.EBUSY }
		if _, err := tc.create(); err == nil || len(p.cqs)+len(other.cqs) > 0 {
			t.Errorf("%s that the kernel refuses = %v with CQs %v and %v, want an error and none", name, err, p.cqs, other.cqs)
		}
		r.before = nil
		q, err := tc.create()
		if err != nil {
			t.Fatalf("%s: create: %v", name, err)
		}
		if !maps.Equal(p.cqs, tc.pd) || !maps.Equal(other.cqs, tc.srqPD) {
			t.Errorf("%s: CQs %v of its PD and %v of the SRQ's, want %v and %v", name, p.cqs, other.cqs, tc.pd, tc.srqPD)
		}
		if err := q.Close(); err != nil || len(p.cqs)+len(other.cqs) > 0 {
			t.Errorf("%s: Close = %v, and CQs %v, %v are left", name, err, p.cqs, other.cqs)
		}
	}
}

// TestCloseWaitsForCopy closes a memory region while a poll has found it and has not copied
// yet. The call must not return before the poll has ended.
func TestCloseWaitsForCopy(t *testing.T) {
	for name, change := range map[string]func(m provider.MR, cfg *provider.MRConfig) error{
		"Close":      func(m provider.MR, _ *provider.MRConfig) error { return m.Close() },
		"Reregister": func(m provider.MR, cfg *provider.MRConfig) error { return m.Reregister(cfg, provider.MRAccess) },
	} {
		for _, unlocked := range []bool{false, true} {
			r := newCQRig(t, provider.CQConfig{Unlocked: unlocked})
			r.qp(provider.RC, nil)
			b := make([]byte, 1) // the race detector observes it
			cfg := provider.MRConfig{PD: r.pd, Mem: b, IOVA: 1000, Access: provider.LocalWrite}
			mr, err := r.ctx.RegMR(&cfg)
			if err != nil {
				t.Fatalf("Context.RegMR: %v", err)
			}
			// The poll holds the lock, and has found the region.
			c := r.cq
			c.acquire()
			if unlocked {
				c.lockToCopy()
			}
			found := r.pd.(*pd).regions.find(mr.LKey())
			var returned atomic.Bool
			done := make(chan error, 1)
			go func() {
				err := change(mr, &cfg)
				returned.Store(true)
				b[0] = 2
				done <- err
			}()
			for !returned.Load() && !waitsForLock("(*pd).removeRegion") {
				runtime.Gosched()
			}
			if returned.Load() {
				t.Errorf("%s, Unlocked %v: the call returned during a poll", name, unlocked)
			}
			if !found.write(1000, []byte{1}) {
				t.Error("the region cannot be written")
			}
			c.release()
			if err := <-done; err != nil || b[0] != 2 {
				t.Errorf("%s = %v with byte %d, want 2", name, err, b[0])
			}
		}
	}
}

// waitsForLock reports whether a goroutine waits for a lock in a call of the named function of
// this package.
func waitsForLock(function string) bool {
	buf := make([]byte, 1<<20)
	for g := range bytes.SplitSeq(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		s := string(g)
		if strings.Contains(s, "mlx5."+function+"(") && (strings.Contains(s, "spin.(*Lock).slow(") || strings.Contains(s, "sync.(*Mutex).lockSlow(")) {
			return true
		}
	}
	return false
}

// TestCloseWhilePolling has two goroutines poll receives with data in the CQE, on CQs with a
// lock and without. The data go into a memory region that another goroutine replaces all the
// time. This goroutine fills the memory after it has closed a region. Nothing may be written
// afterwards. The race detector would also report such a write, because the memory is Go's.
func TestCloseWhilePolling(t *testing.T) {
	const regionsMade, size, step = 200, 64, 128
	r := newCQRig(t, provider.CQConfig{})
	var now atomic.Pointer[provider.SGE] // the current region
	var stop atomic.Bool
	var wg sync.WaitGroup
	var good, refused atomic.Int64
	for i, unlocked := range []bool{false, true} {
		cq, dev := r.newCQ(provider.CQConfig{Unlocked: unlocked, Entries: 15})
		l := &cqRig{t: t, k: r.k, f: r.f, ctx: r.ctx, pd: r.pd, cq: cq, dev: dev}
		q := l.qp(provider.RC, nil)
		wg.Go(func() {
			e := q.recvCQE(0)
			e.Format, e.ByteCount, e.Data = formatScatter32, 16, pattern(16)
			cqe := e.Bytes(cqeSize)
			wcs := make([]provider.WC, 4)
			for !stop.Load() {
				sge := now.Load()
				if sge == nil {
					runtime.Gosched()
					continue
				}
				to := *sge
				to.Addr += uint64(i) * size / 2 // each poller has one half
				to.Length = 16
				for range 4 {
					setCounter(cqe, q.recvPosted(t, 0, to))
					dev.Complete(cqe)
				}
				n, err := cq.Poll(wcs)
				if n != 4 || err != nil {
					t.Errorf("Poll = %d, %v, want 4, nil", n, err)
					return
				}
				for _, wc := range wcs {
					switch wc.Status {
					case provider.WCSuccess:
						good.Add(1)
					case provider.WCLocProtErr:
						refused.Add(1)
					default:
						t.Errorf("status = %v, want WCSuccess or WCLocProtErr", wc.Status)
					}
				}
			}
		})
	}
	var closed [][]byte
	for i := 0; (i < regionsMade || good.Load() == 0 || refused.Load() == 0) && !t.Failed(); i++ {
		b := make([]byte, size)
		iova := uint64(i) * step // a different address, because the key is reused
		mr, err := r.ctx.RegMR(&provider.MRConfig{PD: r.pd, Mem: b, IOVA: iova, Access: provider.LocalWrite})
		if err != nil {
			t.Fatalf("Context.RegMR: %v", err)
		}
		now.Store(&provider.SGE{Addr: iova, LKey: mr.LKey()})
		for seen := good.Load(); i%2 == 0 && good.Load() == seen && !t.Failed(); {
			runtime.Gosched()
		}
		if err := mr.Close(); err != nil {
			t.Fatalf("MR.Close: %v", err)
		}
		fillWith(b, 0xee)
		closed = append(closed, b)
	}
	stop.Store(true)
	wg.Wait()
	for i, b := range closed {
		if !bytes.Equal(b, bytes.Repeat([]byte{0xee}, size)) {
			t.Fatalf("region %d was written after Close: % x", i, b)
		}
	}
	t.Logf("%d receives into memory, %d into closed regions", good.Load(), refused.Load())
}
