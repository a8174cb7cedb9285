// SPDX-License-Identifier: Apache-2.0

//go:build linux

package siw

import (
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/provider"
)

func TestRegMR(t *testing.T) {
	r := newRig(t, 4)
	region, err := mem.Alloc(4096)
	if err != nil {
		t.Fatalf("mem.Alloc(4096): %v", err)
	}
	defer region.Free()
	p := abi.NewSlicePointer(region.Bytes())
	cfg := &provider.MRConfig{PD: r.pd, Mem: region.Bytes(), IOVA: binary.NativeEndian.Uint64(abi.Bytes(&p))}
	first, err := r.ctx.RegMR(cfg)
	if err != nil {
		t.Fatalf("Context.RegMR: %v", err)
	}
	second, err := r.ctx.RegMR(cfg)
	if err != nil {
		t.Fatalf("Context.RegMR: %v", err)
	}
	// The kernel returns the same number twice.
	if first.LKey() == second.LKey() || first.RKey() != first.LKey() || first.LKey()&^0xff != 0x100 {
		t.Errorf("keys = %#x and %#x, want two keys of number 0x100", first.LKey(), second.LKey())
	}
	cfg.IOVA = 0
	if _, err := r.ctx.RegMR(cfg); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("RegMR with another IOVA = %v, want ErrUnsupported", err)
	}
}

func TestCreateQP(t *testing.T) {
	r := newRig(t, 4)
	if _, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.UD, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CreateQP of a UD QP = %v, want ErrUnsupported", err)
	}
	q, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq})
	if err != nil {
		t.Fatalf("Context.CreateQP: %v", err)
	}
	if c := q.Cap(); c.SendWR != 1 || c.RecvWR != 0 || c.Inline != abi.SIW_MAX_INLINE {
		t.Errorf("QP.Cap() = %+v, want SendWR 1, RecvWR 0, Inline SIW_MAX_INLINE", c)
	}
	if _, err := q.PostRecv([]provider.RecvWR{{}}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("PostRecv on a QP without a receive queue = %v, want EINVAL", err)
	}
	q.SetState(provider.QPErr)
	if err := q.Close(); err != nil {
		t.Errorf("QP.Close: %v", err)
	}
	if _, err := q.PostSend([]provider.SendWR{{}}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("PostSend after Close = %v, want net.ErrClosed", err)
	}
	if err := q.Modify(&provider.QPAttr{}, provider.QPAttrState); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Modify after Close = %v, want net.ErrClosed", err)
	}
}

func TestQuery(t *testing.T) {
	r := newRig(t, 4)
	r.qp.SetState(provider.QPRTS)
	a, err := r.qp.Query()
	if err != nil {
		t.Fatalf("qp.Query: %v", err)
	}
	if a.State != provider.QPRTS || a.PKeyIndex != 0 || a.MaxRdAtomic != 4 || a.MaxDestRdAtomic != 3 || a.PathMTU != provider.MTU1024 || a.Cap != r.qp.Cap() {
		t.Errorf("qp.Query() = %+v, %v, want State QPRTS, PKeyIndex 0, MaxRdAtomic 4, MaxDestRdAtomic 3, PathMTU MTU1024, Cap %+v", a, err, r.qp.Cap())
	}
	r.modify = syscall.EPERM
	if err := r.qp.Modify(&provider.QPAttr{State: provider.QPErr}, provider.QPAttrState); !errors.Is(err, syscall.EPERM) || r.qp.State() != provider.QPRTS {
		t.Errorf("Modify = %v, state = %v, want EPERM, RTS", err, r.qp.State())
	}
}

func TestRecvRing(t *testing.T) {
	r := newRig(t, 3)
	r.state(provider.QPInit)
	get := uint32(0)
	for id := range uint64(20) {
		r.recv(provider.RecvWR{ID: id, SGList: []provider.SGE{{Addr: id, Length: 1, LKey: 2}}})
		if id < 2 {
			continue
		}
		if n, err := r.qp.PostRecv([]provider.RecvWR{{}}); n != 0 || !errors.Is(err, provider.ErrFull) {
			t.Fatalf("receive %d: qp.PostRecv = %d, %v, want 0, provider.ErrFull", id, n, err)
		}
		rqe := abi.View[abi.SiwRQE](r.qp.rq.mapping.Bytes()[get%4*112:])
		want := abi.SiwRQE{ID: id - 2, Flags: abi.SIW_WQE_VALID, NumSGE: 1}
		want.SGE[0] = abi.SiwSGE{LAddr: id - 2, Length: 1, LKey: 2}
		if *rqe != want {
			t.Fatalf("slot = %+v, want %+v", *rqe, want)
		}
		rqe.Flags = 0
		get++
	}
	if _, err := r.qp.PostRecv([]provider.RecvWR{{SGList: make([]provider.SGE, 3)}}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("PostRecv with three elements = %v, want EINVAL", err)
	}
}

// TestLargestQueues fills every slot of queues of the maximum size, which have no unused slots.
func TestLargestQueues(t *testing.T) {
	r := newRig(t, maxRequests)
	r.state(provider.QPInit)
	r.qp.SetState(provider.QPRTS)
	if c := r.qp.Cap(); c.SendWR != maxRequests || c.RecvWR != maxRequests {
		t.Errorf("Cap() = %d sends and %d receives, want %d", c.SendWR, c.RecvWR, maxRequests)
	}
	for round := range 2 {
		if n, err := r.qp.PostSend(slices.Repeat([]provider.SendWR{{Opcode: provider.OpWrite}}, maxRequests+1)); n != maxRequests || !errors.Is(err, provider.ErrFull) {
			t.Fatalf("qp.PostSend = %d, %v, want %d, ErrFull", n, err, maxRequests)
		}
		if n, err := r.qp.PostRecv(make([]provider.RecvWR, maxRequests+1)); n != maxRequests || !errors.Is(err, provider.ErrFull) {
			t.Fatalf("qp.PostRecv = %d, %v, want %d, ErrFull", n, err, maxRequests)
		}
		if r.bells != round+1 {
			t.Errorf("%d doorbells in round %d, want %d", r.bells, round, round+1)
		}
		for i := range uint32(maxRequests) {
			r.takeSend()
			r.qp.rq.slots.StoreWord(i, 0)
		}
	}
}

func TestNoAllocs(t *testing.T) {
	r := newRig(t, 4)
	r.qp.SetState(provider.QPRTS)
	sg := make([]provider.SGE, 1)
	sends := []provider.SendWR{{Opcode: provider.OpSend, SGList: sg}, {Opcode: provider.OpRead, SGList: sg}}
	recvs := []provider.RecvWR{{SGList: sg}}
	wcs := make([]provider.WC, 4)
	r.send(sends...) // queries how many READs may be outstanding
	r.sqGet += 2
	if n := testing.AllocsPerRun(100, func() {
		for i := range r.qp.sq.slots.Len() {
			r.qp.sq.slots.StoreWord(uint32(i), 0)
			r.qp.rq.slots.StoreWord(uint32(i), 0)
		}
		r.qp.PostSend(sends)
		r.qp.PostRecv(recvs)
		r.qp.BatchBegin()
		r.qp.BatchAdd(&sends[0])
		r.qp.BatchPost()
		r.complete(abi.SiwCQE{})
		r.cq.Arm(false)
		if n, err := r.cq.Poll(wcs); n != 1 || err != nil {
			t.Fatalf("cq.Poll = %d, %v, want 1, nil", n, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestSRQ(t *testing.T) {
	r := newRig(t, 4)
	s, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 3, MaxSGE: 2})
	if err != nil {
		t.Fatalf("Context.CreateSRQ: %v", err)
	}
	if a := s.Attr(); a.MaxWR != 4 || a.MaxSGE != 2 {
		t.Errorf("SRQ.Attr() = %+v, want MaxWR 4, MaxSGE 2", a)
	}
	if n, err := s.PostRecv(make([]provider.RecvWR, 6)); n != 4 || !errors.Is(err, provider.ErrFull) {
		t.Errorf("PostRecv of 6 = %d, %v, want 4, ErrFull", n, err)
	}
	if err := s.Modify(&provider.SRQAttr{MaxWR: 9}, provider.SRQAttrMaxWR); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Modify(MaxWR 9) = %v, want ErrUnsupported", err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("SRQ.Close: %v", err)
		}
	}
	if n, err := s.PostRecv(make([]provider.RecvWR, 1)); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("PostRecv after Close = %d, %v, want 0, net.ErrClosed", n, err)
	}
	r.rqes = func(uint32) uint32 { return 1 << 31 }
	if _, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 3, MaxSGE: 2}); err == nil {
		t.Error("CreateSRQ with a size beyond the memory succeeded")
	}
	if _, err := r.ctx.CreateAH(&provider.AHConfig{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CreateAH = %v, want ErrUnsupported", err)
	}
}

// TestNoCommandHitsAReusedSRQ checks that Close waits for concurrent commands on the SRQ. The
// kernel reuses the handle of a destroyed SRQ for the next one.
func TestNoCommandHitsAReusedSRQ(t *testing.T) {
	for name, use := range map[string]func(provider.SRQ) error{
		"Modify": func(s provider.SRQ) error {
			return s.Modify(&provider.SRQAttr{Limit: 1}, provider.SRQAttrLimit)
		},
		"Query": func(s provider.SRQ) error { _, err := s.Query(); return err },
	} {
		r := newRig(t, 4)
		s, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 3, MaxSGE: 2})
		if err != nil {
			t.Fatalf("Context.CreateSRQ: %v", err)
		}
		closed := make(chan error, 1)
		r.onSRQ = func() {
			go func() { closed <- s.Close() }()
			select {
			case err := <-closed:
				closed <- err
				t.Errorf("%s: Close returned during the command, so that the kernel may reuse the handle", name)
			case <-time.After(20 * time.Millisecond):
			}
		}
		if err := use(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-closed; err != nil || r.srqs != 0 {
			t.Errorf("%s: Close = %v with %d SRQs left, want nil and 0", name, err, r.srqs)
		}
		if err := use(s); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s after Close = %v, want net.ErrClosed", name, err)
		}
	}
}

// TestNoCommandHitsAReusedQP checks that Close waits for concurrent commands on the QP.
func TestNoCommandHitsAReusedQP(t *testing.T) {
	toErr := &provider.QPAttr{State: provider.QPErr}
	for name, use := range map[string]func(*qp) error{
		"Modify":       func(q *qp) error { return q.Modify(toErr, provider.QPAttrState) },
		"SetState":     func(q *qp) error { q.SetState(provider.QPErr); return nil },
		"Query":        func(q *qp) error { _, err := q.Query(); return err },
		"PostSend":     func(q *qp) error { _, err := q.PostSend([]provider.SendWR{{Opcode: provider.OpSend}}); return err },
		"a first READ": func(q *qp) error { return q.checkReadLocked() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 4)
			r.qp.SetState(provider.QPRTS)
			closed := make(chan error, 1)
			r.onQP = func() {
				r.onQP = nil
				go func() { closed <- r.qp.Close() }()
				select {
				case err := <-closed:
					closed <- err
					t.Error("Close returned during the command, so that the kernel may reuse the handle")
				case <-time.After(20 * time.Millisecond):
				}
			}
			if err := use(r.qp); err != nil {
				t.Errorf("use: %v", err)
			}
			if r.onQP != nil {
				t.Fatal("no command reached the kernel")
			}
			if err := <-closed; err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// checkReadLocked makes the check that PostSend makes for the first READ of a connection.
func (q *qp) checkReadLocked() error {
	q.sq.mu.Lock()
	defer q.sq.mu.Unlock()
	return q.checkRead(&provider.SendWR{Opcode: provider.OpRead, SGList: []provider.SGE{{Length: 1}}})
}
