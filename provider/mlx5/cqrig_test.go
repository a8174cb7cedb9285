// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"testing"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/provider/internal/spin"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/uverbs"
)

// cqRig is a context on a kernel in memory, with a CQ to which tests add CQEs as the device
// would.
type cqRig struct {
	t      testing.TB
	driver Driver
	k      *mlx5test.Kernel
	f      *uverbs.File
	ctx    *Context
	pd     provider.PD
	cq     *CQ
	dev    *mlx5test.CQ // the device's view of cq

	before func(*uverbs.Request) error // refuses requests
	after  func(*uverbs.Request)       // called when the kernel has executed a request
}

// hooked is the transport of a rig's file.
type hooked struct {
	uverbs.Transport
	rig *cqRig
}

func (h *hooked) Ioctl(req *uverbs.Request) error {
	if h.rig.before != nil {
		if err := h.rig.before(req); err != nil {
			return err
		}
	}
	err := h.Transport.Ioctl(req)
	if h.rig.after != nil {
		h.rig.after(req)
	}
	return err
}

// Open makes a rig a uverbs.Kernel with hooks.
func (r *cqRig) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := r.k.Open(info)
	return &hooked{t, r}, err
}

func (r *cqRig) Devices() ([]uverbs.DeviceInfo, error) { return r.k.Devices() }

func newCQRig(t testing.TB, cfg provider.CQConfig) *cqRig {
	t.Helper()
	return newRigOf(t, Driver{}, cfg)
}

// newStrictRig is newCQRig with a strict CQ, which an invalid completion stops.
func newStrictRig(t testing.TB, cfg provider.CQConfig) *cqRig {
	t.Helper()
	return newRigOf(t, Driver{Strict: true}, cfg)
}

func newRigOf(t testing.TB, d Driver, cfg provider.CQConfig) *cqRig {
	t.Helper()
	r := &cqRig{t: t, driver: d, k: mlx5test.New("mlx5_0")}
	r.k.Device = func(_ *abi.UverbsExQueryDeviceResp, own *abi.Mlx5QueryDeviceResp, _ *abi.UverbsQueryPortResp) {
		own.CQECompCaps = abi.Mlx5CQECompCaps{MaxNum: 64, SupportedFormat: 7}
		own.Flags |= abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP | abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD
	}
	r.open(cfg)
	return r
}

// open opens the device and creates the CQ.
func (r *cqRig) open(cfg provider.CQConfig) {
	t := r.t
	t.Helper()
	infos, err := r.k.Devices()
	if err != nil {
		t.Fatalf("Kernel.Devices: %v", err)
	}
	if r.f, err = uverbs.Open(r, infos[0]); err != nil {
		t.Fatalf("uverbs.Open: %v", err)
	}
	ctx, err := r.driver.Open(r.f)
	if err != nil {
		t.Fatalf("Driver.Open: %v", err)
	}
	r.ctx = ctx.(*Context)
	t.Cleanup(func() {
		r.f.Close()
		if err := r.ctx.Close(); err != nil {
			t.Errorf("Context.Close: %v", err)
		}
	})
	if r.pd, err = r.ctx.AllocPD(); err != nil {
		t.Fatalf("Context.AllocPD: %v", err)
	}
	if cfg.Entries == 0 {
		cfg.Entries = 15
	}
	r.cq, r.dev = r.newCQ(cfg)
}

func (r *cqRig) newCQ(cfg provider.CQConfig) (*CQ, *mlx5test.CQ) {
	r.t.Helper()
	cq, err := r.ctx.CreateCQ(&cfg)
	if err != nil {
		r.t.Fatalf("Context.CreateCQ: %v", err)
	}
	r.t.Cleanup(func() { cq.Close() })
	all := r.k.CQs()
	return cq.(*CQ), all[len(all)-1]
}

// qp creates a queue pair only in the provider, not in the kernel. It has 64 blocks for sends,
// one per request, and 64 receives of up to 4 elements.
func (r *cqRig) qp(typ provider.QPType, srq *SRQ) *QP { return r.qpOf(typ, srq, 64) }

// qpOf is qp with the given number of blocks and receives.
func (r *cqRig) qpOf(typ provider.QPType, srq *SRQ, blocks uint32) *QP {
	r.t.Helper()
	const shift = 6
	receives := blocks
	buf, err := mem.Alloc(int(receives<<shift + blocks*wqebb))
	if err != nil {
		r.t.Fatalf("mem.Alloc: %v", err)
	}
	db, err := r.ctx.allocDB()
	if err != nil {
		r.t.Fatalf("Context.allocDB: %v", err)
	}
	r.t.Cleanup(func() {
		r.ctx.freeDB(db)
		buf.Free()
	})
	q := &QP{ctx: r.ctx, file: r.ctx.file, handle: ^uint32(0), pd: r.pd.(*pd), typ: typ, srq: srq, sendCQ: r.cq, recvCQ: r.cq}
	if err := q.addIndex(); err != nil {
		r.t.Fatalf("QP.addIndex: %v", err)
	}
	r.t.Cleanup(func() {
		if q.indexed {
			q.removeIndex()
		}
	})
	q.num = 0xabc00 + q.index
	if typ == provider.UD {
		q.sq.transport = transportUD
	}
	q.rq.open(unsafe.Pointer(&buf.Bytes()[0]), receives, shift, &db.rec[recvRecord], false)
	q.sq.buf = unsafe.Pointer(&buf.Bytes()[receives<<shift])
	q.sq.mask = blocks - 1
	q.sq.pending = unsafe.SliceData(make([]pendingWR, blocks))
	q.sq.forget()
	return q
}

// sendPosted records a request of one block as a post does, and returns its index.
func (q *QP) sendPosted(id uint64, umr provider.WCOpcode) uint16 {
	i := q.sq.head
	*q.sq.entry(i) = pendingWR{id: id, head: i, umr: uint32(umr)}
	spin.StoreRelease(&q.sq.head, i+1)
	return uint16(i)
}

// recvPosted posts a receive and returns its index.
func (q *QP) recvPosted(t testing.TB, id uint64, sg ...provider.SGE) uint16 {
	t.Helper()
	i := q.rq.head
	q.rq.lock.Lock()
	_, err := q.rq.post([]provider.RecvWR{{ID: id, SGList: sg}})
	q.rq.lock.Unlock()
	if err != nil {
		t.Fatalf("recvQueue.post: %v", err)
	}
	return uint16(i)
}

// sendCQE returns the completion of a successful request.
func (q *QP) sendCQE(index uint16, opcode uint8) *mlx5test.CQE {
	return &mlx5test.CQE{Opcode: mlx5test.CQEReq, UserIndex: q.index, QPN: q.num, SendOpcode: opcode, WQECounter: index}
}

// recvCQE returns the completion of a successful receive.
func (q *QP) recvCQE(index uint16) *mlx5test.CQE {
	return &mlx5test.CQE{Opcode: mlx5test.CQERespSend, UserIndex: q.index, QPN: q.num, WQECounter: index}
}

// put adds completions as the device does. It also sets bits without a meaning, which are next
// to the user index and in the signature.
func (r *cqRig) put(cqes ...*mlx5test.CQE) {
	r.t.Helper()
	for _, e := range cqes {
		b := e.Bytes(r.dev.CQESize)
		f := b[r.dev.CQESize-cqeSize:]
		f[cqeUIdx], f[cqeLast+2] = 0xa5, 0x5a
		if !r.dev.Complete(b) {
			r.t.Fatal("Complete: the CQ is full")
		}
	}
}

// poll polls all completions, into WCs that hold arbitrary bytes.
func (r *cqRig) poll() []provider.WC {
	r.t.Helper()
	defer r.delayEnds()()
	wcs := make([]provider.WC, 64)
	for i := range wcs {
		b := abi.Bytes(&wcs[i])
		for k := range b {
			b[k] = 0xcc
		}
	}
	n, err := r.cq.Poll(wcs)
	if err != nil {
		r.t.Fatalf("CQ.Poll: %v", err)
	}
	if got, want := r.dev.ConsumerIndex(), r.dev.Produced()&0xffffff; n < len(wcs) && got != want {
		r.t.Fatalf("consumer index %#x after a poll of all, want %#x", got, want)
	}
	return wcs[:n]
}

// one polls exactly one completion.
func (r *cqRig) one() provider.WC {
	r.t.Helper()
	wcs := r.poll()
	if len(wcs) != 1 {
		r.t.Fatalf("%d completions, want 1", len(wcs))
	}
	return wcs[0]
}

// region allocates and registers memory, whose first byte has the address iova.
func (r *cqRig) region(size int, iova uint64) (lkey uint32, b []byte) {
	r.t.Helper()
	m, err := mem.Alloc(size)
	if err != nil {
		r.t.Fatalf("mem.Alloc: %v", err)
	}
	mr, err := r.ctx.RegMR(&provider.MRConfig{PD: r.pd, Mem: m.Bytes(), IOVA: iova, Access: provider.LocalWrite})
	if err != nil {
		r.t.Fatalf("Context.RegMR: %v", err)
	}
	r.t.Cleanup(func() {
		mr.Close()
		m.Free()
	})
	return mr.LKey(), m.Bytes()
}

func setCounter(cqe []byte, counter uint16) { cqe[60], cqe[61] = byte(counter>>8), byte(counter) }

// pollSome polls once, without checking the consumer index.
func (r *cqRig) pollSome() []provider.WC {
	r.t.Helper()
	defer r.delayEnds()()
	wcs := make([]provider.WC, 64)
	n, err := r.cq.Poll(wcs)
	if err != nil {
		r.t.Fatalf("CQ.Poll: %v", err)
	}
	return wcs[:n]
}

// delayEnds delays the goroutines that end failing QPs until undo. So a poll returns no completions that such a goroutine adds
// during the poll. A test may hold the lock of a QP itself.
func (r *cqRig) delayEnds() (undo func()) {
	var held []*QP
	for i := range r.ctx.resources.next {
		if q := r.ctx.resources.qp(i); q != nil && q.commands.TryLock() {
			held = append(held, q)
		}
	}
	return func() {
		for _, q := range held {
			q.commands.Unlock()
		}
	}
}
