// SPDX-License-Identifier: Apache-2.0

//go:build linux

package erdma

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

// kernel is a kernel with an erdma device that a device executes.
type kernel struct {
	t       *testing.T
	pages   map[int64]*mem.Region // of doorbells, by offset
	device  *device
	handle  uint32
	made    uint32 // QPs
	atomics bool
	mapped  int // pages of doorbells

	// Tests change the responses of the kernel.
	context func(*abi.ErdmaUrespAllocCtx)
	onCQ    func(*abi.ErdmaUrespCreateCQ)
	onQP    func(*abi.ErdmaUrespCreateQP)
	onEnd   func()           // after the destruction of a QP
	fail    map[uint64]error // errors of commands, by their numbers
	open    error
	moved   []provider.QPState
}

func newKernel(t *testing.T) *kernel {
	k := &kernel{t: t, pages: map[int64]*mem.Region{}, atomics: true, fail: map[uint64]error{}}
	k.device = &device{k: k, qps: map[uint32]*deviceQP{}, cqs: map[uint32]*deviceCQ{}, mrs: map[uint32]memory{}}
	for i := range int64(3) {
		r, err := mem.Alloc(doorbellPage)
		if err != nil {
			t.Fatalf("mem.Alloc: %v", err)
		}
		k.pages[(i+1)<<12] = r
		t.Cleanup(func() { r.Free() })
	}
	return k
}

func (k *kernel) Devices() ([]uverbs.DeviceInfo, error)            { return nil, nil }
func (k *kernel) Open(uverbs.DeviceInfo) (uverbs.Transport, error) { return k, nil }
func (k *kernel) Close() error                                     { return nil }
func (k *kernel) Munmap([]byte) error                              { k.mapped--; return nil }
func (k *kernel) Replace(b []byte) error                           { clear(b); return nil }
func (k *kernel) Write([]byte) error                               { return syscall.EINVAL }

func (k *kernel) Mmap(offset int64, length int) ([]byte, error) {
	r := k.pages[offset]
	if r == nil || length != doorbellPage {
		return nil, syscall.EINVAL
	}
	k.mapped++
	return r.Bytes(), nil
}

func (k *kernel) Ioctl(req *uverbs.Request) error {
	reply := func(b []byte) error {
		drv := req.Find(abi.UVERBS_ATTR_UHW_OUT)
		if drv == nil || len(drv.Buf) < len(b) {
			return syscall.EINVAL
		}
		copy(drv.Buf, b)
		return nil
	}
	switch [2]uint16{req.Object, req.Method} {
	case [2]uint16{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT}:
		r := abi.ErdmaUrespAllocCtx{SDB: 1 << 12, RDB: 2 << 12, CDB: 3 << 12}
		if k.context != nil {
			k.context(&r)
		}
		if k.open != nil {
			return k.open
		}
		return reply(abi.Bytes(&r))
	case [2]uint16{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE}:
		in := abi.View[abi.ErdmaUreqCreateCQ](req.Find(abi.UVERBS_ATTR_UHW_IN).Buf)
		n := uint32(1) << bits.Len32(binary.NativeEndian.Uint32(req.Find(abi.UVERBS_ATTR_CREATE_CQ_CQE).Buf)-1)
		k.handle++
		req.Find(abi.UVERBS_ATTR_CREATE_CQ_HANDLE).Value = uint64(k.handle)
		r := abi.ErdmaUrespCreateCQ{CQID: 0x100 + k.handle, NumCQE: n}
		k.device.cqs[k.handle] = &deviceCQ{ring: in.QbufVA.Slice(int(n) * blockSize)}
		if k.onCQ != nil {
			k.onCQ(&r)
		}
		return reply(abi.Bytes(&r))
	case [2]uint16{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE}:
		return k.createQP(req, reply)
	case [2]uint16{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY}:
		delete(k.device.qps, uint32(req.Find(abi.UVERBS_ATTR_DESTROY_QP_HANDLE).Value))
		if k.onEnd != nil {
			k.onEnd()
		}
	case [2]uint16{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY}:
		h := uint32(req.Find(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE).Value)
		for _, q := range k.device.qps {
			if q.sendCQ == k.device.cqs[h] || q.recvCQ == k.device.cqs[h] {
				return syscall.EINVAL
			}
		}
		delete(k.device.cqs, h)
	case [2]uint16{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE}:
		return k.invoke(req)
	}
	return nil // a command that destroys an object
}

func (k *kernel) createQP(req *uverbs.Request, reply func([]byte) error) error {
	in := abi.View[abi.ErdmaUreqCreateQP](req.Find(abi.UVERBS_ATTR_UHW_IN).Buf)
	c := abi.View[abi.UverbsQPCap](req.Find(abi.UVERBS_ATTR_CREATE_QP_CAP).Buf)
	if c.MaxSendWR == 0 || c.MaxRecvWR == 0 || c.MaxSendSGE > maxSendSGE || c.MaxRecvSGE > maxRecvSGE || c.MaxInlineData > maxInline {
		return syscall.EINVAL
	}
	k.handle++
	k.made++
	num := 0x4fffe + k.made
	req.Find(abi.UVERBS_ATTR_CREATE_QP_HANDLE).Value = uint64(k.handle)
	copy(req.Find(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP).Buf, abi.Bytes(c))
	copy(req.Find(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM).Buf, abi.Bytes(&num))
	blocks, slots := uint32(1)<<bits.Len32(c.MaxSendWR*4-1), uint32(1)<<bits.Len32(c.MaxRecvWR-1)
	r := abi.ErdmaUrespCreateQP{QPID: num, NumSQE: blocks, NumRQE: slots, RQOffset: (blocks*blockSize + 4095) &^ 4095}
	if in.QbufLen < r.RQOffset+slots*blockSize {
		return syscall.EINVAL
	}
	buf, records := in.QbufVA.Slice(int(in.QbufLen)), in.DBRecordVA.Slice(16)
	k.device.qps[k.handle] = &deviceQP{
		num: num, sq: buf[:blocks*blockSize], rq: buf[r.RQOffset:][:slots*blockSize], sendRecord: records[:8], recvRecord: records[8:],
		sendCQ: k.device.cqs[uint32(req.Find(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE).Value)],
		recvCQ: k.device.cqs[uint32(req.Find(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE).Value)],
	}
	if k.onQP != nil {
		k.onQP(&r)
	}
	return reply(abi.Bytes(&r))
}

func (k *kernel) invoke(req *uverbs.Request) error {
	in, out := req.Find(abi.UVERBS_ATTR_CORE_IN).Buf, req.Find(abi.UVERBS_ATTR_CORE_OUT)
	num := binary.NativeEndian.Uint64(req.Find(abi.UVERBS_ATTR_WRITE_CMD).Buf)
	if err := k.fail[num]; err != nil {
		return err
	}
	switch num {
	case abi.IB_USER_VERBS_CMD_ALLOC_PD:
		copy(out.Buf, abi.Bytes(&abi.UverbsAllocPDResp{PDHandle: 5}))
	case abi.IB_USER_VERBS_CMD_FLAG_EXTENDED | abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE:
		r := abi.UverbsExQueryDeviceResp{ResponseLength: uint32(abi.Size[abi.UverbsExQueryDeviceResp]())}
		if k.atomics {
			r.Base.AtomicCap = 1
		}
		copy(out.Buf, abi.Bytes(&r))
	case abi.IB_USER_VERBS_CMD_REG_MR:
		c := abi.View[abi.UverbsRegMR](in)
		key := uint32(len(k.device.mrs)+1) << 8
		k.device.mrs[key] = memory{c.HCAVA, c.Start.Slice(int(c.Length))}
		copy(out.Buf, abi.Bytes(&abi.UverbsRegMRResp{MRHandle: key, LKey: key, RKey: key}))
	case abi.IB_USER_VERBS_CMD_MODIFY_QP:
		c := abi.View[abi.UverbsModifyQP](in)
		if provider.QPAttrMask(c.AttrMask)&provider.QPAttrState != 0 {
			k.moved = append(k.moved, provider.QPState(c.QPState))
			k.device.qps[c.QPHandle].move(provider.QPState(c.QPState))
		}
	case abi.IB_USER_VERBS_CMD_QUERY_QP:
		copy(out.Buf, abi.Bytes(&abi.UverbsQueryQPResp{QPState: 1, PKeyIndex: 7, MaxRdAtomic: 3, MaxDestRdAtomic: 4, PathMTU: 3}))
	}
	return nil
}
