// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/internal/mem"
	"purerdma/uverbs"
)

const (
	erdmaPage  = 4096
	erdmaBlock = 32 // bytes of a basic block and of a completion
)

// erdmaKernel is a kernel with an erdma device that is memory, and with one QP and one CQ.
type erdmaKernel struct {
	devices fakeuverbs.Devices
	mu      sync.Mutex
	ring    []byte // of the CQ
	qp      uint32 // number
	pi      uint32 // the next completion
	at      uint16 // the block of the next request to complete
}

func newErdma() *erdmaKernel {
	return &erdmaKernel{devices: fakeuverbs.NewDevices(abi.RDMA_DRIVER_ERDMA, abi.ERDMA_ABI_VERSION, 1, "erdma_0")}
}

// Devices implements uverbs.Kernel.
func (k *erdmaKernel) Devices() ([]uverbs.DeviceInfo, error) { return k.devices.Devices() }

// Open implements uverbs.Kernel.
func (k *erdmaKernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	c := fakeuverbs.New(info, &k.mu, nil)
	c.Attr.Base = abi.UverbsQueryDeviceResp{MaxQPWR: 8192, MaxSGE: 6, MaxCQE: 1 << 20, MaxCQ: 16, MaxQP: 16, MaxMR: 16, MaxPD: 16, MaxMRSize: 1 << 32, PhysPortCnt: 1}
	c.Port = fakeuverbs.RoCEPort()
	c.GIDs = []abi.UverbsGIDEntry{fakeuverbs.IPv4GID(info)}
	c.Keys = func() (lkey, rkey uint32) { return 0x100, 0x100 }
	c.HandleRest()
	c.Handle(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT, func(req *uverbs.Request) error {
		var r abi.ErdmaUrespAllocCtx
		for _, p := range []*uint64{&r.SDB, &r.RDB, &r.CDB} {
			page, err := mem.Alloc(erdmaPage)
			if err != nil {
				return err
			}
			*p = c.Offer(page)
		}
		fakeuverbs.PutDriver(req, &r)
		return c.GetContext(req)
	})
	c.Handle(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, func(req *uverbs.Request) error {
		in := abi.View[abi.ErdmaUreqCreateCQ](fakeuverbs.DriverIn(req))
		r := abi.ErdmaUrespCreateCQ{CQID: 1, NumCQE: roundUp(uint32(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_CQ_CQE)))}
		k.ring = in.QbufVA.Slice(int(r.NumCQE) * erdmaBlock)
		fakeuverbs.SetHandle(req, abi.UVERBS_ATTR_CREATE_CQ_HANDLE, c.NewHandle())
		fakeuverbs.PutDriver(req, &r)
		return nil
	})
	c.Handle(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE, func(req *uverbs.Request) error {
		asked := abi.View[abi.UverbsQPCap](req.Find(abi.UVERBS_ATTR_CREATE_QP_CAP).Buf)
		k.qp = 0x21
		fakeuverbs.SetHandle(req, abi.UVERBS_ATTR_CREATE_QP_HANDLE, c.NewHandle())
		fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, asked)
		fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &k.qp)
		r := abi.ErdmaUrespCreateQP{QPID: k.qp, NumSQE: roundUp(asked.MaxSendWR * 4), NumRQE: roundUp(asked.MaxRecvWR)}
		r.RQOffset = (r.NumSQE*erdmaBlock + erdmaPage - 1) &^ (erdmaPage - 1)
		fakeuverbs.PutDriver(req, &r)
		return nil
	})
	c.Command(abi.IB_USER_VERBS_CMD_FLAG_EXTENDED|abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE, c.QueryDeviceEx)
	c.Command(abi.IB_USER_VERBS_CMD_MODIFY_QP, func(*fakeuverbs.Command) error { return nil })
	return c, nil
}

func roundUp(n uint32) uint32 { return 1 << bits.Len32(n-1) }

// complete implements card.
func (k *erdmaKernel) complete(_ *device, inline bool, n int) {
	op, blocks := uint32(0), uint16(2)
	if inline {
		op, blocks = 2, 3
	}
	entries := uint32(len(k.ring) / erdmaBlock)
	for range n {
		e := k.ring[k.pi%entries*erdmaBlock:][:erdmaBlock]
		binary.BigEndian.PutUint32(e[4:], uint32(k.at))
		binary.BigEndian.PutUint32(e[8:], k.qp)
		owner := ^(k.pi / entries) & 1
		binary.BigEndian.PutUint32(e, owner<<31|op<<16)
		k.pi++
		k.at += blocks
	}
}
