// SPDX-License-Identifier: Apache-2.0

//go:build linux

package siw

import (
	"encoding/binary"
	"math/bits"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/internal/vmtest"
	"purerdma/provider"
	"purerdma/uverbs"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// kernel is a siw that creates queues and does nothing by itself. The test consumes requests
// and adds completions.
type kernel struct {
	t      *testing.T
	sqes   func(n uint32) uint32 // reports the size of a queue
	rqes   func(n uint32) uint32
	cqes   func(n uint32) uint32
	key    func(k uint64) uint64
	last   uint32
	queues map[uint64]*mem.Region
	stag   uint8
	bells  int
	bell   error
	depths [2]uint8 // in the reply to a query: inbound and outbound READs
	moved  []provider.QPState
	modify error
	num    uint32 // of the QP that is created next
	made   func() // called when a QP has been created
	onSRQ  func() // runs during MODIFY_SRQ and QUERY_SRQ
	onQP   func() // runs during MODIFY_QP, QUERY_QP and a doorbell
	srqs   int    // number of SRQs

	destroy func() error // called when a QP is destroyed

	// sendSGEs and recvSGEs report the number of elements of a request.
	sendSGEs, recvSGEs func(n uint32) uint32

	// onNewQP changes the response to CREATE_QP.
	onNewQP func(*abi.SiwUrespCreateQP)

	objects, mapped int // CQs, QPs and SRQs, and mappings
}

func same(n uint32) uint32 { return 1 << bits.Len32(n-1) }

func newKernel(t *testing.T) *kernel {
	k := &kernel{t: t, sqes: same, rqes: same, cqes: same, key: func(k uint64) uint64 { return k }, queues: map[uint64]*mem.Region{}}
	k.sendSGEs = func(n uint32) uint32 { return n }
	k.recvSGEs = k.sendSGEs
	k.depths, k.num = [2]uint8{3, 4}, 0x77
	t.Cleanup(func() {
		for _, r := range k.queues {
			r.Free()
		}
	})
	return k
}

func (k *kernel) Devices() ([]uverbs.DeviceInfo, error)            { return nil, nil }
func (k *kernel) Open(uverbs.DeviceInfo) (uverbs.Transport, error) { return k, nil }
func (k *kernel) Close() error                                     { return nil }
func (k *kernel) Munmap([]byte) error                              { k.mapped--; return nil }
func (k *kernel) Replace(b []byte) error                           { clear(b); return nil }

// pages returns the number of pages of n bytes. The kernel compares the sizes of mappings in pages.
func pages(n int) int { return (n + pageSize - 1) / pageSize }

// queue allocates memory for a queue and returns its key.
func (k *kernel) queue(size int) uint64 {
	r, err := mem.Alloc(pages(size) * pageSize)
	if err != nil {
		k.t.Fatalf("mem.Alloc: %v", err)
	}
	// The first key is SIW_INVAL_UOBJ_KEY. The kernel also assigns this key to queues.
	key := uint64(len(k.queues)+1) * abi.SIW_INVAL_UOBJ_KEY
	k.queues[key] = r
	return k.key(key)
}

func (k *kernel) Mmap(offset int64, length int) ([]byte, error) {
	r := k.queues[uint64(offset)]
	if r == nil || pages(length) != pages(len(r.Bytes())) {
		return nil, syscall.EINVAL
	}
	k.mapped++
	return r.Bytes()[:length], nil
}

func (k *kernel) Write(cmd []byte) error {
	if abi.View[abi.UverbsCmdHdr](cmd).Command != abi.IB_USER_VERBS_CMD_POST_SEND {
		return syscall.EINVAL
	}
	k.bells++
	if k.onQP != nil {
		k.onQP()
	}
	return k.bell
}

func (k *kernel) Ioctl(req *uverbs.Request) error {
	drv := req.Find(abi.UVERBS_ATTR_UHW_OUT)
	reply := func(b []byte) error {
		if drv == nil || len(drv.Buf) < len(b) {
			return syscall.EINVAL
		}
		copy(drv.Buf, b)
		return nil
	}
	handle := func(id uint16) {
		k.last++
		k.objects++
		req.Find(id).Value = uint64(k.last)
	}
	switch [2]uint16{req.Object, req.Method} {
	case [2]uint16{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT}:
		return reply(abi.Bytes(&abi.SiwUrespAllocCtx{DevID: 1}))
	case [2]uint16{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE}:
		handle(abi.UVERBS_ATTR_CREATE_CQ_HANDLE)
		n := binary.NativeEndian.Uint32(req.Find(abi.UVERBS_ATTR_CREATE_CQ_CQE).Buf)
		return reply(abi.Bytes(&abi.SiwUrespCreateCQ{NumCQE: k.cqes(n), CQKey: k.queue(int(same(n))*32 + 8)}))
	case [2]uint16{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE}:
		handle(abi.UVERBS_ATTR_CREATE_QP_HANDLE)
		c := *abi.View[abi.UverbsQPCap](req.Find(abi.UVERBS_ATTR_CREATE_QP_CAP).Buf)
		if c.MaxSendWR == 0 {
			return syscall.EINVAL
		}
		answer := c
		answer.MaxSendSGE, answer.MaxRecvSGE = k.sendSGEs(c.MaxSendSGE), k.recvSGEs(c.MaxRecvSGE)
		copy(req.Find(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP).Buf, abi.Bytes(&answer))
		copy(req.Find(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM).Buf, abi.Bytes(&k.num))
		r := abi.SiwUrespCreateQP{NumSQE: k.sqes(c.MaxSendWR), SQKey: k.queue(int(same(c.MaxSendWR)) * 120)}
		if c.MaxRecvWR > 0 {
			r.NumRQE, r.RQKey = k.rqes(c.MaxRecvWR), k.queue(int(same(c.MaxRecvWR))*112)
		}
		if k.onNewQP != nil {
			k.onNewQP(&r)
		}
		if k.made != nil {
			k.made()
		}
		return reply(abi.Bytes(&r))
	case [2]uint16{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY}:
		if k.destroy != nil {
			return k.destroy()
		}
		k.objects--
	case [2]uint16{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY}:
		k.objects--
	case [2]uint16{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE}:
		handle(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE)
		k.srqs++
		n := binary.NativeEndian.Uint32(req.Find(abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR).Buf)
		sge := k.recvSGEs(binary.NativeEndian.Uint32(req.Find(abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE).Buf))
		copy(req.Find(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE).Buf, abi.Bytes(&sge))
		return reply(abi.Bytes(&abi.SiwUrespCreateSRQ{NumRQE: k.rqes(n), SRQKey: k.queue(int(same(n)) * 112)}))
	case [2]uint16{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_DESTROY}:
		k.srqs--
		k.objects--
	case [2]uint16{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE}:
		return k.invoke(req, reply)
	}
	return nil // a command that destroys an object
}

func (k *kernel) invoke(req *uverbs.Request, reply func([]byte) error) error {
	in, out := req.Find(abi.UVERBS_ATTR_CORE_IN).Buf, req.Find(abi.UVERBS_ATTR_CORE_OUT)
	switch binary.NativeEndian.Uint64(req.Find(abi.UVERBS_ATTR_WRITE_CMD).Buf) {
	case abi.IB_USER_VERBS_CMD_MODIFY_QP, abi.IB_USER_VERBS_CMD_QUERY_QP:
		if k.onQP != nil {
			k.onQP()
		}
	}
	switch binary.NativeEndian.Uint64(req.Find(abi.UVERBS_ATTR_WRITE_CMD).Buf) {
	case abi.IB_USER_VERBS_CMD_ALLOC_PD:
		copy(out.Buf, abi.Bytes(&abi.UverbsAllocPDResp{PDHandle: 5}))
	case abi.IB_USER_VERBS_CMD_REG_MR:
		own := req.Find(abi.UVERBS_ATTR_UHW_IN)
		if own == nil || len(own.Buf) != abi.Size[abi.SiwUreqRegMR]() {
			return syscall.EINVAL
		}
		k.stag = own.Buf[0]
		key := 0x100 | uint32(k.stag)
		copy(out.Buf, abi.Bytes(&abi.UverbsRegMRResp{MRHandle: 6, LKey: key, RKey: key}))
		return reply(abi.Bytes(&abi.SiwUrespRegMR{STag: key}))
	case abi.IB_USER_VERBS_CMD_MODIFY_QP:
		if k.modify != nil {
			return k.modify
		}
		if c := abi.View[abi.UverbsModifyQP](in); provider.QPAttrMask(c.AttrMask)&provider.QPAttrState != 0 {
			k.moved = append(k.moved, provider.QPState(c.QPState))
		}
	case abi.IB_USER_VERBS_CMD_MODIFY_SRQ, abi.IB_USER_VERBS_CMD_QUERY_SRQ:
		if k.onSRQ != nil {
			k.onSRQ()
		}
	case abi.IB_USER_VERBS_CMD_QUERY_QP:
		r := abi.UverbsQueryQPResp{QPState: 0xee, PKeyIndex: 0xeeee, MaxRdAtomic: k.depths[0], MaxDestRdAtomic: k.depths[1], PathMTU: 3}
		copy(out.Buf, abi.Bytes(&r))
	}
	return nil
}

// rig is a QP with one CQ, and the kernel's view of its queues.
type rig struct {
	*kernel
	f     *uverbs.File
	ctx   *Context
	cq    *cq
	qp    *qp
	pd    provider.PD
	wakes int
	sqGet uint32
	cqPut uint32
}

func newRig(t *testing.T, depth int) *rig {
	t.Helper()
	r := &rig{kernel: newKernel(t)}
	if err := r.open(depth); err != nil {
		t.Fatalf("rig.open: %v", err)
	}
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{r.qp, r.cq, r.f} {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	})
	return r
}

func (r *rig) open(depth int) error {
	if err := r.openDevice(); err != nil {
		return err
	}
	c, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 4 * depth, Wake: func() { r.wakes++ }})
	if err != nil {
		return err
	}
	r.cq = c.(*cq)
	q, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: c, RecvCQ: c,
		Cap: provider.QPCap{SendWR: depth, RecvWR: depth, SendSGE: 4, RecvSGE: 2, Inline: 10}})
	if err != nil {
		c.Close()
		return err
	}
	r.qp = q.(*qp)
	return nil
}

// openDevice opens the device and allocates a PD.
func (r *rig) openDevice() error {
	var err error
	if r.f, err = uverbs.Open(r.kernel, uverbs.DeviceInfo{Name: "siw0"}); err != nil {
		return err
	}
	ctx, err := Driver{}.Open(r.f)
	if err != nil {
		return err
	}
	r.ctx = ctx.(*Context)
	r.pd, err = r.ctx.AllocPD()
	return err
}

func (r *rig) state(s provider.QPState) {
	r.t.Helper()
	if err := r.qp.Modify(&provider.QPAttr{State: s}, provider.QPAttrState); err != nil {
		r.t.Fatalf("qp.Modify: %v", err)
	}
}

// takeSend consumes the next request as the kernel does. It returns nil if there is none.
func (r *rig) takeSend() *abi.SiwSQE {
	b := r.qp.sq.mapping.Bytes()
	sqe := abi.View[abi.SiwSQE](b[int(r.sqGet)%(len(b)/120)*120:])
	if sqe.Flags&abi.SIW_WQE_VALID == 0 {
		return nil
	}
	taken := *sqe
	sqe.Flags = 0
	r.sqGet++
	return &taken
}

// complete adds a completion as the kernel does. A completion without a QP belongs to the rig's
// QP.
func (r *rig) complete(c abi.SiwCQE) {
	b := r.cq.mapping.Bytes()
	cqe := abi.View[abi.SiwCQE](b[int(r.cqPut)%r.cq.Entries()*32:])
	if cqe.Flags != 0 {
		r.t.Fatal("complete: the CQ is full")
	}
	c.Flags = abi.SIW_WQE_VALID
	if c.QPID == 0 {
		c.QPID = 0x77
	}
	*cqe = c
	r.cqPut++
}

func (r *rig) poll(n int) []provider.WC {
	r.t.Helper()
	wcs := make([]provider.WC, n)
	got, err := r.cq.Poll(wcs)
	if err != nil {
		r.t.Fatalf("cq.Poll: %v", err)
	}
	return wcs[:got]
}

func (r *rig) send(wrs ...provider.SendWR) {
	r.t.Helper()
	if n, err := r.qp.PostSend(wrs); n != len(wrs) || err != nil {
		r.t.Fatalf("PostSend = %d, %v, want %d, nil", n, err, len(wrs))
	}
}

func (r *rig) recv(wrs ...provider.RecvWR) {
	r.t.Helper()
	if n, err := r.qp.PostRecv(wrs); n != len(wrs) || err != nil {
		r.t.Fatalf("PostRecv = %d, %v, want %d, nil", n, err, len(wrs))
	}
}
