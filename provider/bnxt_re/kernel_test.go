// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"encoding/binary"
	"math/bits"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/internal/vmtest"
	"purerdma/provider"
	"purerdma/uverbs"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// Offsets of pages for mmap(2).
const (
	pageShared = 0
	pageBells  = 1 << 12
	pagePush   = 2 << 12
	pageLoad   = 3 << 12 // pacing
	pageFIFO   = 4 << 12
	pageToggle = 1 << 20 // of the first CQ or SRQ
)

// kernel is a kernel with a bnxt_re device that a device executes.
type kernel struct {
	t      testing.TB
	chip   chip
	device *device

	mu      sync.Mutex
	pages   map[int64]*mem.Region // by offset
	writes  map[int64]bool        // pages that may be mapped for writing
	handle  uint32
	toggles int64
	objects map[uint64]bool // toggle pages that were not released
	pds     int
	alarms  int
	ahs     uint32

	// Tests change the responses of the kernel.
	context  func(*abi.BnxtReUctxResp)
	onDevice func(*abi.UverbsExQueryDeviceResp)
	onCQ     func(*abi.BnxtReCQResp)
	onQP     func(*abi.BnxtReQPResp)
	onSRQ    func(*abi.BnxtReSRQResp)
	onPage   func(offset *uint64, length *uint32)
	onEnd    func()              // runs during the destruction of a QP, CQ or SRQ.
	onInvoke func(num uint64)    // runs during a command of write(2), which has the number.
	onResize func(cq *deviceCQ)  // runs instead of the end of the old ring.
	fail     map[[2]uint64]error // errors of commands, by object and method, or 0 and the number of a command
	moved    []provider.QPState
	rates    []uint32
	limits   []uint32
}

func newKernel(t testing.TB, c chip) *kernel {
	k := &kernel{t: t, chip: c, pages: map[int64]*mem.Region{}, writes: map[int64]bool{}, objects: map[uint64]bool{}, fail: map[[2]uint64]error{}}
	k.device = &device{k: k, qps: map[uint32]*deviceQP{}, cqs: map[uint32]*deviceCQ{}, srqs: map[uint32]*deviceSRQ{}, mrs: map[uint32]memory{}}
	if c.maxCQE == 0 {
		k.chip.maxCQE = 65535
	}
	for _, at := range []int64{pageShared, pageBells, pagePush, pageLoad, pageFIFO} {
		k.page(at)
	}
	k.writes[pageLoad] = false
	return k
}

// page makes a page that is mapped at an offset.
func (k *kernel) page(at int64) []byte {
	r, err := mem.Alloc(os.Getpagesize())
	if err != nil {
		k.t.Fatalf("mem.Alloc: %v", err)
	}
	k.pages[at], k.writes[at] = r, true
	k.t.Cleanup(func() { r.Free() })
	return r.Bytes()
}

func (k *kernel) Devices() ([]uverbs.DeviceInfo, error)            { return nil, nil }
func (k *kernel) Open(uverbs.DeviceInfo) (uverbs.Transport, error) { return k, nil }
func (k *kernel) Close() error                                     { return nil }
func (k *kernel) Munmap([]byte) error                              { return nil }
func (k *kernel) Replace(b []byte) error                           { clear(b); return nil }
func (k *kernel) Write([]byte) error                               { return syscall.EINVAL }

func (k *kernel) Mmap(offset int64, length int) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.writes[offset] || length != os.Getpagesize() {
		return nil, syscall.EFAULT
	}
	return k.pages[offset].Bytes(), nil
}

func (k *kernel) MmapReadOnly(offset int64, length int) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.pages[offset]
	if r == nil || length != os.Getpagesize() {
		return nil, syscall.EFAULT
	}
	return r.Bytes(), nil
}

// reply fills the driver's part of a response, which may be shorter in an old process.
func reply(req *uverbs.Request, b []byte) error {
	drv := req.Find(abi.UVERBS_ATTR_UHW_OUT)
	if drv == nil || len(drv.Buf) < len(b) {
		return syscall.EINVAL
	}
	copy(drv.Buf, b)
	return nil
}

func output[T any](req *uverbs.Request, id uint16, v T) { copy(req.Find(id).Buf, abi.Bytes(&v)) }

func (k *kernel) Ioctl(req *uverbs.Request) error {
	k.mu.Lock()
	err := k.fail[[2]uint64{uint64(req.Object), uint64(req.Method)}]
	k.mu.Unlock()
	if err != nil {
		return err
	}
	end := k.onEnd
	if w := req.Find(abi.UVERBS_ATTR_WRITE_CMD); k.onInvoke != nil && req.Object == abi.UVERBS_OBJECT_DEVICE && req.Method == abi.UVERBS_METHOD_INVOKE_WRITE {
		k.onInvoke(binary.NativeEndian.Uint64(w.Buf))
	}
	switch [2]uint16{req.Object, req.Method} {
	case [2]uint16{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY}, [2]uint16{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY},
		[2]uint16{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_DESTROY}:
		if end != nil {
			end()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch [2]uint16{req.Object, req.Method} {
	case [2]uint16{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT}:
		return k.getContext(req)
	case [2]uint16{abi.BNXT_RE_OBJECT_ALLOC_PAGE, abi.BNXT_RE_METHOD_ALLOC_PAGE}:
		return k.allocPage(req)
	case [2]uint16{abi.BNXT_RE_OBJECT_GET_TOGGLE_MEM, abi.BNXT_RE_METHOD_GET_TOGGLE_MEM}:
		return k.getToggle(req)
	case [2]uint16{abi.BNXT_RE_OBJECT_GET_TOGGLE_MEM, abi.BNXT_RE_METHOD_RELEASE_TOGGLE_MEM}:
		h := req.Find(abi.BNXT_RE_RELEASE_TOGGLE_MEM_HANDLE).Value
		if !k.objects[h] {
			return syscall.ENOENT
		}
		delete(k.objects, h)
	case [2]uint16{abi.BNXT_RE_OBJECT_NOTIFY_DRV, abi.BNXT_RE_METHOD_NOTIFY_DRV}:
		k.alarms++
	case [2]uint16{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE}:
		return k.createCQ(req)
	case [2]uint16{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE}:
		return k.createQP(req)
	case [2]uint16{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE}:
		return k.createSRQ(req)
	case [2]uint16{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY}:
		delete(k.device.qps, uint32(req.Find(abi.UVERBS_ATTR_DESTROY_QP_HANDLE).Value))
	case [2]uint16{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY}:
		h := uint32(req.Find(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE).Value)
		for _, q := range k.device.qps {
			if q.sendCQ == k.device.cqs[h] || q.recvCQ == k.device.cqs[h] {
				return syscall.EINVAL
			}
		}
		delete(k.device.cqs, h)
	case [2]uint16{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_DESTROY}:
		h := uint32(req.Find(abi.UVERBS_ATTR_DESTROY_SRQ_HANDLE).Value)
		for _, q := range k.device.qps {
			if q.srq != nil && q.srq == k.device.srqs[h] {
				return syscall.EINVAL
			}
		}
		delete(k.device.srqs, h)
	case [2]uint16{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE}:
		return k.invoke(req)
	}
	return nil // a command that destroys an object
}

func (k *kernel) getContext(req *uverbs.Request) error {
	r := abi.BnxtReUctxResp{PgSize: uint32(os.Getpagesize()), CQESz: 32, MaxCQD: k.chip.maxCQE, CompMask: abi.BNXT_RE_UCNTX_CMASK_HAVE_CCTX, ChipID0: k.chip.num}
	set := func(on bool, bit uint64) {
		if on {
			r.CompMask |= bit
		}
	}
	in := abi.View[abi.BnxtReUctxReq](req.Find(abi.UVERBS_ATTR_UHW_IN).Buf).CompMask
	set(k.chip.anySize && in&abi.BNXT_RE_COMP_MASK_REQ_UCNTX_POW2_SUPPORT != 0, abi.BNXT_RE_UCNTX_CMASK_POW2_DISABLED)
	set(!k.chip.old && in&abi.BNXT_RE_COMP_MASK_REQ_UCNTX_VAR_WQE_SUPPORT != 0, abi.BNXT_RE_UCNTX_CMASK_HAVE_MODE)
	set(k.chip.push, abi.BNXT_RE_UCNTX_CMASK_WC_DPI_ENABLED)
	set(k.chip.paced, abi.BNXT_RE_UCNTX_CMASK_DBR_PACING_ENABLED)
	set(k.chip.msn, abi.BNXT_RE_UCNTX_CMASK_MSN_TABLE_ENABLED)
	set(k.chip.variable, abi.BNXT_RE_UCNTX_CMASK_QP_RATE_LIMIT_ENABLED)
	if k.chip.variable {
		r.Mode = abi.BNXT_QPLIB_WQE_MODE_VARIABLE
	}
	if k.context != nil {
		k.context(&r)
	}
	return reply(req, abi.Bytes(&r))
}

func (k *kernel) allocPage(req *uverbs.Request) error {
	at, ok := map[uint64]uint64{abi.BNXT_RE_ALLOC_WC_PAGE: pagePush, abi.BNXT_RE_ALLOC_DBR_PAGE: pageLoad, abi.BNXT_RE_ALLOC_DBR_BAR_PAGE: pageFIFO}[uverbs.Number(req.Find(abi.BNXT_RE_ALLOC_PAGE_TYPE).Buf)]
	length := uint32(os.Getpagesize())
	if !ok {
		return syscall.EOPNOTSUPP
	}
	if k.onPage != nil {
		k.onPage(&at, &length)
	}
	output(req, abi.BNXT_RE_ALLOC_PAGE_MMAP_OFFSET, at)
	output(req, abi.BNXT_RE_ALLOC_PAGE_MMAP_LENGTH, length)
	output(req, abi.BNXT_RE_ALLOC_PAGE_DPI, uint32(0x123))
	return nil
}

func (k *kernel) getToggle(req *uverbs.Request) error {
	kind, num := uverbs.Number(req.Find(abi.BNXT_RE_TOGGLE_MEM_TYPE).Buf), binary.NativeEndian.Uint32(req.Find(abi.BNXT_RE_TOGGLE_MEM_RES_ID).Buf)
	at, length := uint64(pageToggle+k.toggles<<12), uint32(os.Getpagesize())
	k.toggles++
	b := k.page(int64(at))
	k.writes[int64(at)] = false
	found := false
	if kind == abi.BNXT_RE_CQ_TOGGLE_MEM {
		for _, c := range k.device.cqs {
			if c.num == num {
				c.toggle, found = b, true
			}
		}
	} else {
		for _, s := range k.device.srqs {
			if s.num == num {
				s.toggle, found = b, true
			}
		}
	}
	if !found {
		return syscall.EOPNOTSUPP
	}
	if k.onPage != nil {
		k.onPage(&at, &length)
	}
	k.objects[at] = true
	req.Find(abi.BNXT_RE_TOGGLE_MEM_HANDLE).Value = at
	output(req, abi.BNXT_RE_TOGGLE_MEM_MMAP_PAGE, at)
	output(req, abi.BNXT_RE_TOGGLE_MEM_MMAP_LENGTH, length)
	return nil
}

// maxWR is the number of requests and receives of the largest queues.
const maxWR = 16384

// depth is the number of entries that the kernel computes for a queue of at least n, of at most limit.
func (k *kernel) depth(n, limit int) int {
	if k.chip.anySize {
		return n
	}
	return min(1<<bits.Len(uint(n-1)), limit)
}

func (k *kernel) createCQ(req *uverbs.Request) error {
	in := abi.View[abi.BnxtReCQReq](req.Find(abi.UVERBS_ATTR_UHW_IN).Buf)
	n := int(binary.NativeEndian.Uint32(req.Find(abi.UVERBS_ATTR_CREATE_CQ_CQE).Buf))
	if n > int(k.chip.maxCQE) || k.pds == 0 {
		return syscall.EINVAL
	}
	k.handle++
	req.Find(abi.UVERBS_ATTR_CREATE_CQ_HANDLE).Value = uint64(k.handle)
	c := &deviceCQ{num: 0x40000 + k.handle, ring: in.CQVA.Slice(k.depth(n+1, int(k.chip.maxCQE)+1) * cqeSize), phase: 1}
	k.device.cqs[k.handle] = c
	r := abi.BnxtReCQResp{CQID: c.num, Phase: 1}
	if k.chip.toggle {
		r.CompMask = abi.BNXT_RE_CQ_TOGGLE_PAGE_SUPPORT
	}
	if k.onCQ != nil {
		k.onCQ(&r)
	}
	return reply(req, abi.Bytes(&r))
}

func (k *kernel) createSRQ(req *uverbs.Request) error {
	in := abi.View[abi.BnxtReSRQReq](req.Find(abi.UVERBS_ATTR_UHW_IN).Buf)
	n := int(binary.NativeEndian.Uint32(req.Find(abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR).Buf))
	k.handle++
	req.Find(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE).Value = uint64(k.handle)
	s := &deviceSRQ{num: 0x80000 + k.handle, ring: in.SRQVA.Slice(k.depth(n+1, maxWR+1) * srqSize)}
	k.device.srqs[k.handle] = s
	r := abi.BnxtReSRQResp{SRQID: s.num}
	if k.chip.toggle {
		r.CompMask = abi.BNXT_RE_SRQ_TOGGLE_PAGE_SUPPORT
	}
	if k.onSRQ != nil {
		k.onSRQ(&r)
	}
	return reply(req, abi.Bytes(&r))
}

// createQP computes the sizes as the kernel's driver does.
func (k *kernel) createQP(req *uverbs.Request) error {
	in := abi.View[abi.BnxtReQPReq](req.Find(abi.UVERBS_ATTR_UHW_IN).Buf)
	c := abi.View[abi.UverbsQPCap](req.Find(abi.UVERBS_ATTR_CREATE_QP_CAP).Buf)
	if c.MaxSendSGE > k.chip.maxSGE || c.MaxRecvSGE > k.chip.maxSGE {
		return syscall.EINVAL
	}
	requests, size, recvSize := k.depth(int(c.MaxSendWR)+1+128, maxWR+1+128), 128, 128
	slots := requests * 8
	if k.chip.variable {
		slots = int(in.SQSlots)
		if slots%256 != 0 || slots == 0 {
			return syscall.EINVAL
		}
		requests, size, recvSize = slots, 16, 32+16*int(c.MaxRecvSGE)
	}
	q := &deviceQP{d: k.device, cookie: in.QPHandle, entries: requests, depth: slots, sq: in.QPSVA.Slice(requests * size), recvSize: recvSize,
		rc:     uverbs.Number(req.Find(abi.UVERBS_ATTR_CREATE_QP_TYPE).Buf) == uint64(provider.RC),
		sendCQ: k.device.cqs[uint32(req.Find(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE).Value)],
		recvCQ: k.device.cqs[uint32(req.Find(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE).Value)],
	}
	k.handle++
	q.num = 0x20000 + k.handle
	if a := req.Find(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE); a != nil {
		q.srq = k.device.srqs[uint32(a.Value)]
	} else {
		q.recvs = k.depth(int(c.MaxRecvWR)+1, maxWR+1)
		q.rq = in.QPRVA.Slice(q.recvs * recvSize)
	}
	req.Find(abi.UVERBS_ATTR_CREATE_QP_HANDLE).Value = uint64(k.handle)
	copy(req.Find(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP).Buf, abi.Bytes(c))
	output(req, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, q.num)
	k.device.qps[k.handle] = q
	r := abi.BnxtReQPResp{QPID: q.num}
	if k.onQP != nil {
		k.onQP(&r)
	}
	return reply(req, abi.Bytes(&r))
}

func (k *kernel) invoke(req *uverbs.Request) error {
	in, out := req.Find(abi.UVERBS_ATTR_CORE_IN).Buf, req.Find(abi.UVERBS_ATTR_CORE_OUT)
	num := binary.NativeEndian.Uint64(req.Find(abi.UVERBS_ATTR_WRITE_CMD).Buf)
	if err := k.fail[[2]uint64{0, num}]; err != nil {
		return err
	}
	switch num {
	case abi.IB_USER_VERBS_CMD_ALLOC_PD:
		k.pds++
		copy(out.Buf, abi.Bytes(&abi.UverbsAllocPDResp{PDHandle: 5}))
		return reply(req, abi.Bytes(&abi.BnxtRePDResp{PDID: 7, DPI: 9, DBR: pageBells}))
	case abi.IB_USER_VERBS_CMD_FLAG_EXTENDED | abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE:
		r := abi.UverbsExQueryDeviceResp{ResponseLength: uint32(abi.Size[abi.UverbsExQueryDeviceResp]())}
		b := &r.Base
		b.MaxSGE, b.MaxQPWR, b.MaxSRQWR, b.MaxSRQSGE, b.AtomicCap, b.MaxMW = k.chip.maxSGE, maxWR, maxWR, 6, 1, 100
		if k.chip.noAtomics {
			b.AtomicCap = 0
		}
		if k.onDevice != nil {
			k.onDevice(&r)
		}
		copy(out.Buf, abi.Bytes(&r))
		p := abi.BnxtReQueryDeviceExResp{PacketPacingCaps: abi.BnxtRePacketPacingCaps{QPRateLimitMin: 10, QPRateLimitMax: 200, SupportedQPTs: 4}}
		return reply(req, abi.Bytes(&p))
	case abi.IB_USER_VERBS_CMD_REG_MR:
		c := abi.View[abi.UverbsRegMR](in)
		key := uint32(len(k.device.mrs)+1) << 8
		k.device.mrs[key] = memory{c.HCAVA, c.Start.Slice(int(c.Length))}
		copy(out.Buf, abi.Bytes(&abi.UverbsRegMRResp{MRHandle: key, LKey: key, RKey: key}))
	case abi.IB_USER_VERBS_CMD_CREATE_AH:
		k.ahs++
		binary.NativeEndian.PutUint32(k.pages[pageShared].Bytes()[abi.BNXT_RE_AVID_OFFT:], 0x7700+k.ahs)
		copy(out.Buf, abi.Bytes(&abi.UverbsCreateAHResp{AHHandle: k.ahs}))
	case abi.IB_USER_VERBS_CMD_MODIFY_QP:
		k.modify(abi.View[abi.UverbsModifyQP](in))
	case abi.IB_USER_VERBS_CMD_FLAG_EXTENDED | abi.IB_USER_VERBS_EX_CMD_MODIFY_QP:
		c := abi.View[abi.UverbsExModifyQP](in)
		k.rates = append(k.rates, c.RateLimit)
		k.modify(&c.Base)
	case abi.IB_USER_VERBS_CMD_QUERY_QP:
		copy(out.Buf, abi.Bytes(&abi.UverbsQueryQPResp{QPState: 1, PKeyIndex: 7, MaxRdAtomic: 3, MaxDestRdAtomic: 4, PathMTU: 3}))
	case abi.IB_USER_VERBS_CMD_QUERY_SRQ:
		copy(out.Buf, abi.Bytes(&abi.UverbsQuerySRQResp{MaxWR: 999, MaxSGE: 9, SRQLimit: 77}))
	case abi.IB_USER_VERBS_CMD_MODIFY_SRQ:
		k.limits = append(k.limits, abi.View[abi.UverbsModifySRQ](in).SRQLimit)
	case abi.IB_USER_VERBS_CMD_RESIZE_CQ:
		c := abi.View[abi.UverbsResizeCQ](in)
		copy(out.Buf, abi.Bytes(&abi.UverbsResizeCQResp{CQE: c.CQE}))
		cq := k.device.cqs[c.CQHandle]
		cq.next = abi.View[abi.BnxtReResizeCQReq](req.Find(abi.UVERBS_ATTR_UHW_IN).Buf).CQVA.Slice(k.depth(int(c.CQE)+1, int(k.chip.maxCQE)+1) * cqeSize)
		if k.onResize != nil {
			k.onResize(cq)
		} else {
			cq.cutOff()
		}
	case abi.IB_USER_VERBS_CMD_POLL_CQ:
		k.device.cqs[abi.View[abi.UverbsPollCQ](in).CQHandle].ended = true
	}
	return nil
}

func (k *kernel) modify(c *abi.UverbsModifyQP) {
	if provider.QPAttrMask(c.AttrMask)&provider.QPAttrState != 0 {
		k.moved = append(k.moved, provider.QPState(c.QPState))
		k.device.qps[c.QPHandle].move(provider.QPState(c.QPState))
	}
}

// leftPages returns the toggle pages that were not released.
func (k *kernel) leftPages() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.objects)
}

// movedTo reports whether a QP was moved to a state.
func (k *kernel) movedTo(s provider.QPState) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.moved, s)
}
