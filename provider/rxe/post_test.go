// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rxe

import (
	"testing"

	"purerdma/provider"
)

// rig returns a context and a QP on a kernel that does nothing.
func rig(t testing.TB, cfg provider.QPConfig) (*Context, *qp) {
	t.Helper()
	c := honest().context(t)
	cfg.PD, cfg.SendCQ, cfg.RecvCQ = handle(1), &cq{}, &cq{}
	p, err := c.CreateQP(&cfg)
	if err != nil {
		t.Fatalf("Context.CreateQP: %v", err)
	}
	q := p.(*qp)
	q.SetState(provider.QPRTS)
	return c, q
}

// taken has the kernel consume all posted requests.
func (q *qp) taken() {
	q.sq.ring.StoreConsumer(q.sq.producer)
	if !q.srq {
		q.rq.ring.StoreConsumer(q.rq.producer)
	}
}

type holder struct{ a *ah }

func (h *holder) ProviderAH() provider.AH { return h.a }

// TestPostNoAllocs posts each kind of request, a thousand times.
func TestPostNoAllocs(t *testing.T) {
	sg := []provider.SGE{{Addr: 1, Length: 8, LKey: 1}}
	for typ, wrs := range map[provider.QPType][]provider.SendWR{
		provider.RC: {
			{Opcode: provider.OpSend, SGList: sg},
			{Opcode: provider.OpWrite, InlineData: make([]byte, 32)},
			{Opcode: provider.OpFetchAdd, SGList: sg},
			{Opcode: provider.OpBindMW, Bind: &provider.MWBindInfo{}},
			{Opcode: provider.OpLocalInv},
			{Opcode: provider.OpFlush},
			{Opcode: provider.OpAtomicWrite, InlineData: make([]byte, 8)},
		},
		provider.UC: {{Opcode: provider.OpWriteImm, SGList: sg}},
		provider.UD: {{Opcode: provider.OpSend, SGList: sg, AH: &holder{&ah{num: 3}}}},
	} {
		_, q := rig(t, provider.QPConfig{Type: typ})
		ops, _ := opcodesOf(typ, ^uint64(0))
		q.sq.ops.Store(uint32(ops))
		recvs := []provider.RecvWR{{SGList: sg}}
		n := testing.AllocsPerRun(1000, func() {
			if n, err := q.PostSend(wrs); n != len(wrs) || err != nil {
				t.Fatalf("qp.PostSend = %d, %v, want %d, nil", n, err, len(wrs))
			}
			if n, err := q.PostRecv(recvs); n != 1 || err != nil {
				t.Fatalf("qp.PostRecv = %d, %v, want 1, nil", n, err)
			}
			q.taken()
		})
		if n != 0 {
			t.Errorf("%v: %v allocations, want 0", typ, n)
		}
	}
}

// TestCloseBusy closes an object that a command of another goroutine still uses.
func TestCloseBusy(t *testing.T) {
	l := honest()
	c := l.context(t)
	q, err := c.CreateQP(&provider.QPConfig{Type: provider.RC, PD: handle(1), SendCQ: &cq{}, RecvCQ: &cq{}})
	if err != nil {
		t.Fatalf("Context.CreateQP: %v", err)
	}
	l.busy = 3
	if err := q.Close(); err != nil || l.objects != 0 || l.busy != 0 {
		t.Errorf("qp.Close() = %v, with %d objects and busy = %d, want nil, 0 and 0", err, l.objects, l.busy)
	}
}

func BenchmarkPostSend(b *testing.B) {
	_, q := rig(b, provider.QPConfig{Type: provider.RC})
	wr := []provider.SendWR{{Opcode: provider.OpSend, SGList: []provider.SGE{{Addr: 1, Length: 64, LKey: 1}}}}
	for b.Loop() {
		if _, err := q.PostSend(wr); err != nil {
			b.Fatalf("qp.PostSend: %v", err)
		}
		q.sq.ring.StoreConsumer(q.sq.producer)
	}
}

func BenchmarkBatch(b *testing.B) {
	_, q := rig(b, provider.QPConfig{Type: provider.RC})
	wr := provider.SendWR{Opcode: provider.OpSend, SGList: []provider.SGE{{Addr: 1, Length: 64, LKey: 1}}}
	for b.Loop() {
		q.BatchBegin()
		for range q.cap.SendWR {
			if err := q.BatchAdd(&wr); err != nil {
				b.Fatalf("qp.BatchAdd: %v", err)
			}
		}
		if err := q.BatchPost(); err != nil {
			b.Fatalf("qp.BatchPost: %v", err)
		}
		q.sq.ring.StoreConsumer(q.sq.producer)
	}
}
