// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/internal/vmtest"
	"purerdma/uverbs"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// rig is a program that runs commands as a provider does.
type rig struct {
	t   *testing.T
	k   *Kernel
	f   *uverbs.File
	ctx abi.Mlx5AllocUcontextResp
	mem *mem.Region // for rings and doorbell records
	pd  uint32
}

func newRig(t *testing.T, k *Kernel, req abi.Mlx5AllocUcontextReqV2) *rig {
	t.Helper()
	infos, err := k.Devices()
	if err != nil {
		t.Fatalf("Kernel.Devices: %v", err)
	}
	r := &rig{t: t, k: k}
	if r.f, err = uverbs.Open(k, infos[0]); err != nil {
		t.Fatalf("uverbs.Open: %v", err)
	}
	t.Cleanup(func() { r.f.Close() })
	if _, err := r.f.GetContext(uverbs.Driver{In: abi.Bytes(&req), Out: abi.Bytes(&r.ctx)}); err != nil {
		t.Fatalf("File.GetContext: %v", err)
	}
	if r.mem, err = mem.Alloc(1 << 20); err != nil {
		t.Fatalf("mem.Alloc: %v", err)
	}
	t.Cleanup(func() { r.mem.Free() })
	if r.pd, err = r.f.AllocPD(uverbs.Driver{}); err != nil {
		t.Fatalf("File.AllocPD: %v", err)
	}
	return r
}

// modern returns the GET_CONTEXT request of a program that allocates its register pages.
func modern() abi.Mlx5AllocUcontextReqV2 {
	return abi.Mlx5AllocUcontextReqV2{TotalNumBFRegs: 16, NumLowLatencyBFRegs: 4, MaxCQEVersion: 1, LibCaps: abi.MLX5_LIB_CAP_4K_UAR | abi.MLX5_LIB_CAP_DYN_UAR}
}

// at returns a pointer to the rig's memory at offset off.
func (r *rig) at(off int) abi.Pointer { return abi.NewSlicePointer(r.mem.Bytes()[off:]) }

// uar allocates a register page and maps it.
func (r *rig) uar() (handle, page uint32, m *uverbs.Mapping) {
	r.t.Helper()
	typ, off, length := uint64(abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF), uint64(0), uint32(0)
	req := &uverbs.Request{Object: abi.MLX5_IB_OBJECT_UAR, Method: abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC, Attrs: []uverbs.Attr{
		{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, Kind: uverbs.AttrNewHandle},
		{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, Kind: uverbs.AttrIn, Buf: abi.Bytes(&typ)},
		{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, Kind: uverbs.AttrOut, Buf: abi.Bytes(&off)},
		{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, Kind: uverbs.AttrOut, Buf: abi.Bytes(&length)},
		{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, Kind: uverbs.AttrOut, Buf: abi.Bytes(&page)},
	}}
	if err := r.f.Ioctl(req); err != nil {
		r.t.Fatalf("File.Ioctl: %v", err)
	}
	m, err := r.f.Mmap(int64(off), int(length))
	if err != nil {
		r.t.Fatalf("File.Mmap: %v", err)
	}
	r.t.Cleanup(func() { m.Close() })
	return uint32(req.Attrs[0].Value), page, m
}

func (r *rig) freeUAR(handle uint32) error {
	return r.f.Ioctl(&uverbs.Request{Object: abi.MLX5_IB_OBJECT_UAR, Method: abi.MLX5_IB_METHOD_UAR_OBJ_DESTROY, Attrs: []uverbs.Attr{
		{ID: abi.MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, Kind: uverbs.AttrHandle, Value: uint64(handle)},
	}})
}

func (r *rig) cq(cqe uint32, own abi.Mlx5CreateCQ) (uint32, error) {
	var resp abi.Mlx5CreateCQResp
	cq, err := r.f.CreateCQ(uverbs.CQConfig{Entries: cqe, UserHandle: 0xcc}, uverbs.Driver{In: abi.Bytes(&own), Out: abi.Bytes(&resp)})
	return cq.Handle, err
}

func (r *rig) qp(cq uint32, own abi.Mlx5CreateQP) (uverbs.QP, error) {
	var resp abi.Mlx5CreateQPResp
	return r.f.CreateQP(uverbs.QPConfig{Type: abi.IB_UVERBS_QPT_RC, PD: r.pd, SendCQ: cq, RecvCQ: cq,
		Cap: abi.UverbsQPCap{MaxSendWR: 16, MaxRecvWR: 8, MaxSendSGE: 2, MaxRecvSGE: 1}}, uverbs.Driver{In: abi.Bytes(&own), Out: abi.Bytes(&resp)})
}

// TestObjects creates an object of each kind, and checks its description.
func TestObjects(t *testing.T) {
	r := newRig(t, New("mlx5_0"), modern())
	if r.ctx.TotBFRegs != 0 || r.ctx.CQEVersion != 1 || r.ctx.NumDynBFRegs == 0 {
		t.Errorf("context = %+v, want dynamic registers and CQE version 1", r.ctx)
	}
	uar, page, m := r.uar()
	if page != 0x10 || len(m.Bytes()) != UARSize {
		t.Errorf("page = %#x of %d bytes, want 0x10 of %d", page, len(m.Bytes()), UARSize)
	}
	m.Bytes()[BlueFlame] = 0x5a
	if got := r.k.UARs()[0]; got.Mem[BlueFlame] != 0x5a || got.ID != page {
		t.Errorf("UARs()[0] = %+v, want page %#x with the written byte", got, page)
	}
	cq, err := r.cq(63, abi.Mlx5CreateCQ{BufAddr: r.at(0), DBAddr: r.at(8192), CQESize: 64,
		Flags: abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, UARPageIndex: uint16(page)})
	if err != nil {
		t.Fatalf("rig.cq: %v", err)
	}
	if c := r.k.CQs()[0]; c.Num != 0x401 || c.Entries() != 64 || c.Handle != cq || &c.Buf[0] != &r.mem.Bytes()[0] || c.UAR.ID != page || c.UserHandle != 0xcc {
		t.Errorf("CQs()[0] = %+v, want CQ 0x401 with 64 entries", c)
	}
	qp, err := r.qp(cq, abi.Mlx5CreateQP{BufAddr: r.at(16384), DBAddr: r.at(8200), SQWQECount: 32, RQWQECount: 8, RQWQEShift: 4,
		UIdx: 7, BFRegIndex: page, Flags: abi.MLX5_QP_FLAG_UAR_PAGE_INDEX})
	if err != nil {
		t.Fatalf("rig.qp: %v", err)
	}
	q := r.k.QPs()[0]
	if qp.Num != 0xabc01 || q.Num != qp.Num || &q.RQ[0] != &r.mem.Bytes()[16384] || &q.SQ[0] != &r.mem.Bytes()[16384+8*16] ||
		len(q.SQ) != 32*WQEBB || len(q.RQ) != 8*16 || q.Create.UIdx != 7 {
		t.Errorf("QPs()[0] = %+v, want QP 0xabc01 with both rings", q)
	}
	binary.BigEndian.PutUint32(r.mem.Bytes()[8204:], 0x1234)
	if q.SendCounter() != 0x1234 || q.RecvCounter() != 0 {
		t.Errorf("SendCounter(), RecvCounter() = %#x, %#x, want 0x1234, 0", q.SendCounter(), q.RecvCounter())
	}
	mr, err := r.f.RegMR(r.pd, r.mem.Bytes()[:100], 0, abi.IB_UVERBS_ACCESS_LOCAL_WRITE, uverbs.Driver{})
	if err != nil || mr.LKey != 0xa1b233 || mr.RKey != mr.LKey {
		t.Errorf("File.RegMR = %+v, %v, want LKey 0xa1b233, RKey %d, no error", mr, err, mr.LKey)
	}
	var srqResp abi.Mlx5CreateSRQResp
	own := abi.Mlx5CreateSRQ{BufAddr: r.at(65536), DBAddr: r.at(8208), UIdx: 8}
	srq, err := r.f.CreateSRQ(uverbs.SRQConfig{PD: r.pd, MaxWR: 15, MaxSGE: 3}, uverbs.Driver{In: abi.Bytes(&own), Out: abi.Bytes(&srqResp)})
	if err != nil || srqResp.SRQN != 0x900 {
		t.Fatalf("CreateSRQ = number %#x, %v, want 0x900, nil", srqResp.SRQN, err)
	}
	if s := r.k.SRQs()[0]; s.Stride != 64 || len(s.Buf) != 16*64 || s.MaxWR != 15 {
		t.Errorf("SRQs()[0] = %+v, want a stride of 64 and 15 receives", s)
	}

	busy := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, syscall.EBUSY) {
			t.Errorf("destroying a %s in use = %v, want EBUSY", what, err)
		}
	}
	busy("PD", r.f.DeallocPD(r.pd))
	busy("CQ", r.f.DestroyCQ(cq))
	busy("UAR", r.freeUAR(uar))
	for i, err := range []error{r.f.DestroySRQ(srq.Handle), r.f.DeregMR(mr.Handle), r.f.DestroyQP(qp.Handle), r.f.DestroyCQ(cq), r.freeUAR(uar), r.f.DeallocPD(r.pd)} {
		if err != nil {
			t.Errorf("destroying object %d: %v", i, err)
		}
	}
	if n := len(r.k.QPs()) + len(r.k.CQs()) + len(r.k.SRQs()) + len(r.k.UARs()); n != 0 {
		t.Errorf("%d objects left, want 0", n)
	}
}

// TestRefused runs commands that mlx5_ib refuses.
func TestRefused(t *testing.T) {
	r := newRig(t, New("mlx5_0"), modern())
	_, page, _ := r.uar()
	good := abi.Mlx5CreateCQ{BufAddr: r.at(0), DBAddr: r.at(8192), CQESize: 64,
		Flags: abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, UARPageIndex: uint16(page)}
	for name, tc := range map[string]struct {
		change func(*abi.Mlx5CreateCQ)
		want   error
	}{
		"size of 32":         {func(c *abi.Mlx5CreateCQ) { c.CQESize = 32 }, syscall.EINVAL},
		"no page":            {func(c *abi.Mlx5CreateCQ) { c.Flags = 0 }, syscall.EINVAL},
		"another's page":     {func(c *abi.Mlx5CreateCQ) { c.UARPageIndex++ }, syscall.EINVAL},
		"unknown flag":       {func(c *abi.Mlx5CreateCQ) { c.Flags |= 1 << 9 }, syscall.EINVAL},
		"reserved":           {func(c *abi.Mlx5CreateCQ) { c.Reserved1 = 1 }, syscall.EINVAL},
		"no memory":          {func(c *abi.Mlx5CreateCQ) { c.BufAddr = abi.Pointer{} }, syscall.EFAULT},
		"padding of 64":      {func(c *abi.Mlx5CreateCQ) { c.Flags |= abi.MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD }, syscall.EOPNOTSUPP},
		"unknown format":     {func(c *abi.Mlx5CreateCQ) { c.CQECompEn, c.CQECompResFormat = 1, 1<<4 }, syscall.EOPNOTSUPP},
		"two formats at all": {func(c *abi.Mlx5CreateCQ) { c.CQECompEn, c.CQECompResFormat = 1, 3 }, syscall.EOPNOTSUPP},
	} {
		own := good
		tc.change(&own)
		if _, err := r.cq(63, own); !errors.Is(err, tc.want) {
			t.Errorf("CQ with %s: rig.cq: error = %v, want %v", name, err, tc.want)
		}
	}
	cq, err := r.cq(63, good)
	if err != nil {
		t.Fatalf("rig.cq: %v", err)
	}
	goodQP := abi.Mlx5CreateQP{BufAddr: r.at(16384), DBAddr: r.at(8200), SQWQECount: 32, RQWQECount: 8, RQWQEShift: 4,
		UIdx: 7, BFRegIndex: page, Flags: abi.MLX5_QP_FLAG_UAR_PAGE_INDEX}
	for name, tc := range map[string]struct {
		change func(*abi.Mlx5CreateQP)
		want   error
	}{
		"33 WQEBB":       {func(q *abi.Mlx5CreateQP) { q.SQWQECount = 33 }, syscall.EINVAL},
		"no WQEBB":       {func(q *abi.Mlx5CreateQP) { q.SQWQECount = 0 }, syscall.EINVAL},
		"9 receives":     {func(q *abi.Mlx5CreateQP) { q.RQWQECount = 9 }, syscall.EINVAL},
		"huge receives":  {func(q *abi.Mlx5CreateQP) { q.RQWQEShift = 12 }, syscall.EINVAL},
		"user index":     {func(q *abi.Mlx5CreateQP) { q.UIdx = 1 << 24 }, syscall.EINVAL},
		"no page":        {func(q *abi.Mlx5CreateQP) { q.Flags = 0 }, syscall.EINVAL},
		"another's page": {func(q *abi.Mlx5CreateQP) { q.BFRegIndex = 0x99 }, syscall.EINVAL},
		"no ring":        {func(q *abi.Mlx5CreateQP) { q.BufAddr = abi.Pointer{} }, syscall.EFAULT},
		"no record":      {func(q *abi.Mlx5CreateQP) { q.DBAddr = abi.Pointer{} }, syscall.EFAULT},
	} {
		own := goodQP
		tc.change(&own)
		if _, err := r.qp(cq, own); !errors.Is(err, tc.want) {
			t.Errorf("QP with %s: rig.qp: error = %v, want %v", name, err, tc.want)
		}
	}
	if _, err := r.qp(cq+100, goodQP); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("QP of an unknown CQ: error = %v, want EINVAL", err)
	}
	qp, err := r.qp(cq, goodQP)
	if err != nil {
		t.Fatalf("rig.qp: %v", err)
	}
	for _, m := range []abi.UverbsModifyQP{
		{QPState: stateRTR, AttrMask: attrState},
		{QPState: stateInit, AttrMask: attrState}, // without a port
		{QPState: stateInit, AttrMask: attrState | attrPort, PortNum: 2},
		{QPState: 9, AttrMask: attrState},
	} {
		m.QPHandle = qp.Handle
		if err := r.f.ModifyQP(&m); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Modify %+v: File.ModifyQP = %v, want EINVAL", m, err)
		}
	}
	if err := r.f.Ioctl(&uverbs.Request{Object: abi.MLX5_IB_OBJECT_DEVX, Method: abi.MLX5_IB_METHOD_DEVX_OTHER}); !errors.Is(err, syscall.EPROTONOSUPPORT) {
		t.Errorf("DEVX request: error = %v, want EPROTONOSUPPORT", err)
	}
	if _, err := r.f.Mmap(0, UARSize); err == nil {
		t.Error("Mmap(0) succeeded although the program allocates its register pages")
	}
}

// TestRemove checks a removed device. Its commands fail, and its mapped memory stays mapped.
func TestRemove(t *testing.T) {
	k := New("mlx5_0")
	k.LegacyUAR = true
	r := newRig(t, k, modern())
	m, err := r.f.Mmap(UARSize, UARSize)
	if err != nil {
		t.Fatalf("File.Mmap: %v", err)
	}
	if !k.Remove("mlx5_0") {
		t.Fatal("Remove(mlx5_0) = false, want true")
	}
	if _, err := r.f.Mmap(0, UARSize); !errors.Is(err, syscall.EIO) {
		t.Errorf("File.Mmap(0, UARSize): error = %v, want EIO", err)
	}
	if _, err := r.f.AllocPD(uverbs.Driver{}); !errors.Is(err, syscall.EIO) {
		t.Errorf("File.AllocPD(uverbs.Driver{}): error = %v, want EIO", err)
	}
	m.Bytes()[0] = 1
	if err := m.Close(); err != nil {
		t.Errorf("Mapping.Close: %v", err)
	}
	if _, err := uverbs.Open(k, r.f.Info()); err == nil {
		t.Error("Open of the removed device succeeded")
	}
}

// TestLegacy shares the register pages that come with a context.
func TestLegacy(t *testing.T) {
	k := New("mlx5_0")
	k.LegacyUAR = true
	r := newRig(t, k, modern())
	if r.ctx.TotBFRegs != 16 {
		t.Fatalf("context = %+v, want 16 registers", r.ctx)
	}
	m, err := r.f.Mmap(UARSize, UARSize) // MLX5_IB_MMAP_REGULAR_PAGE, page 1
	if err != nil {
		t.Fatalf("File.Mmap: %v", err)
	}
	defer m.Close()
	for _, off := range []int64{UARSize, 8 * UARSize, 9<<8*UARSize + UARSize} {
		if _, err := r.f.Mmap(off, UARSize); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("offset %#x: File.Mmap: error = %v, want EINVAL", off, err)
		}
	}
	own := abi.Mlx5CreateCQ{BufAddr: r.at(0), DBAddr: r.at(8192), CQESize: 128}
	if _, err := r.cq(63, own); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CQ without a mapped page: error = %v, want EINVAL", err)
	}
	first, err := r.f.Mmap(0, UARSize)
	if err != nil {
		t.Fatalf("File.Mmap(0, UARSize): %v", err)
	}
	defer first.Close()
	cq, err := r.cq(63, own)
	if err != nil {
		t.Fatalf("rig.cq: %v", err)
	}
	if u := k.CQs()[0].UAR; u == nil || u.ID != 0 {
		t.Errorf("register page of the CQ = %+v, want page 0", u)
	}
	if _, err = r.qp(cq, abi.Mlx5CreateQP{BufAddr: r.at(16384), DBAddr: r.at(8200), SQWQECount: 32, RQWQECount: 8, RQWQEShift: 4}); err != nil {
		t.Fatalf("rig.qp: %v", err)
	}
	if u := k.QPs()[0].UAR; u == nil || u.ID != 1 {
		t.Errorf("register page of the QP = %+v, want page 1", u)
	}
}

// TestComplete fills a ring of completions twice, and then overflows it.
func TestComplete(t *testing.T) {
	r := newRig(t, New("mlx5_0"), modern())
	_, page, _ := r.uar()
	async, err := r.f.AllocAsync()
	if err != nil {
		t.Fatalf("File.AllocAsync: %v", err)
	}
	defer async.Close()
	if _, err := r.cq(3, abi.Mlx5CreateCQ{BufAddr: r.at(0), DBAddr: r.at(8192), CQESize: 64,
		Flags: abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, UARPageIndex: uint16(page)}); err != nil {
		t.Fatalf("rig.cq: %v", err)
	}
	q := r.k.CQs()[0]
	for i := range 8 {
		e := CQE{Opcode: CQEReq, SendOpcode: 0x0a, UserIndex: 5, QPN: 0xabc01, WQECounter: uint16(i), ByteCount: 77}
		if !q.Complete(e.Bytes(64)) {
			t.Fatalf("Complete of completion %d = false, want true", i)
		}
		got := r.mem.Bytes()[i%4*64:][:64]
		want := e.Bytes(64)
		want[63] |= byte(i / 4)
		if !bytes.Equal(got, want) {
			t.Errorf("completion %d =\n%x, want\n%x", i, got, want)
		}
		binary.BigEndian.PutUint32(r.mem.Bytes()[8192:], uint32(i+1))
	}
	for range 4 {
		q.Complete((&CQE{}).Bytes(64))
	}
	if q.Complete((&CQE{}).Bytes(64)) {
		t.Error("Complete of a fifth completion in a ring of four = true, want false")
	}
	ev, err := async.Next(t.Context())
	if err != nil || ev.Type != uverbs.EventCQErr || ev.Element != 0xcc {
		t.Errorf("Next = %+v, %v, want EventCQErr of 0xcc, nil", ev, err)
	}
}
