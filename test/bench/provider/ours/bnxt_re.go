// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"sync"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/internal/mem"
	"purerdma/uverbs"
)

const (
	bnxtPage  = 4096
	bnxtEntry = 32     // bytes of a completion
	bnxtChip  = 0x1760 // of the generation P7
)

// bnxtKernel is a kernel with a bnxt_re device that is memory, and with one QP and one CQ. Requests have a variable
// size, as on the chip that test/oracle's fake kernel has for the C program.
type bnxtKernel struct {
	devices fakeuverbs.Devices
	mu      sync.Mutex
	ring    []byte // of the CQ
	at      int    // offset of the next completion
	phase   byte
	cookie  uint64 // of the QP
	slots   uint32 // of the send queue
	done    uint32 // completed requests
}

func newBnxt() *bnxtKernel {
	return &bnxtKernel{devices: fakeuverbs.NewDevices(abi.RDMA_DRIVER_BNXT_RE, abi.BNXT_RE_ABI_VERSION, 1, "bnxt_re0"), phase: 1}
}

// Devices implements uverbs.Kernel.
func (k *bnxtKernel) Devices() ([]uverbs.DeviceInfo, error) { return k.devices.Devices() }

// Open implements uverbs.Kernel.
func (k *bnxtKernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	c := fakeuverbs.New(info, &k.mu, nil)
	c.Attr.Base = abi.UverbsQueryDeviceResp{MaxQPWR: 4096, MaxSGE: 13, MaxCQE: 8191, MaxCQ: 16, MaxQP: 16, MaxMR: 16, MaxPD: 16, MaxMRSize: 1 << 32, PhysPortCnt: 1}
	c.Port = fakeuverbs.RoCEPort()
	c.GIDs = []abi.UverbsGIDEntry{fakeuverbs.IPv4GID(info)}
	c.Keys = func() (lkey, rkey uint32) { return 0x100, 0x100 }
	c.MapAt = func(_ int64, length int) (*mem.Region, error) { return mem.Alloc(length) } // the shared page, at 0
	c.HandleRest()
	c.Handle(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT, func(req *uverbs.Request) error {
		fakeuverbs.PutDriver(req, &abi.BnxtReUctxResp{PgSize: bnxtPage, CQESz: bnxtEntry, MaxCQD: 8191, ChipID0: bnxtChip, Mode: abi.BNXT_QPLIB_WQE_MODE_VARIABLE,
			CompMask: abi.BNXT_RE_UCNTX_CMASK_HAVE_CCTX | abi.BNXT_RE_UCNTX_CMASK_HAVE_MODE | abi.BNXT_RE_UCNTX_CMASK_POW2_DISABLED | abi.BNXT_RE_UCNTX_CMASK_MSN_TABLE_ENABLED})
		return c.GetContext(req)
	})
	c.Handle(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, func(req *uverbs.Request) error {
		in := abi.View[abi.BnxtReCQReq](fakeuverbs.DriverIn(req))
		k.ring = in.CQVA.Slice((int(fakeuverbs.Value(req, abi.UVERBS_ATTR_CREATE_CQ_CQE)) + 1) * bnxtEntry)
		fakeuverbs.SetHandle(req, abi.UVERBS_ATTR_CREATE_CQ_HANDLE, c.NewHandle())
		fakeuverbs.PutDriver(req, &abi.BnxtReCQResp{CQID: 1, Phase: 1})
		return nil
	})
	c.Handle(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE, func(req *uverbs.Request) error {
		in, num := abi.View[abi.BnxtReQPReq](fakeuverbs.DriverIn(req)), uint32(0x21)
		k.cookie, k.slots = in.QPHandle, in.SQSlots
		fakeuverbs.SetHandle(req, abi.UVERBS_ATTR_CREATE_QP_HANDLE, c.NewHandle())
		fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, abi.View[abi.UverbsQPCap](req.Find(abi.UVERBS_ATTR_CREATE_QP_CAP).Buf))
		fakeuverbs.Put(req, abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &num)
		fakeuverbs.PutDriver(req, &abi.BnxtReQPResp{QPID: num})
		return nil
	})
	c.Command(abi.IB_USER_VERBS_CMD_ALLOC_PD, func(cmd *fakeuverbs.Command) error {
		page, err := mem.Alloc(bnxtPage)
		if err != nil {
			return err
		}
		if _, err := c.NewPD(cmd); err != nil {
			return errors.Join(err, page.Free())
		}
		cmd.AnswerDriver(abi.Bytes(&abi.BnxtRePDResp{PDID: 1, DPI: 1, DBR: c.Offer(page)}))
		return nil
	})
	c.Command(abi.IB_USER_VERBS_CMD_FLAG_EXTENDED|abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE, c.QueryDeviceEx)
	c.Command(abi.IB_USER_VERBS_CMD_MODIFY_QP, func(*fakeuverbs.Command) error { return nil })
	return c, nil
}

// complete implements card.
func (k *bnxtKernel) complete(_ *device, _ bool, n int) {
	for range n {
		e := k.ring[k.at:][:bnxtEntry]
		k.done = (k.done + 1) % k.slots
		binary.LittleEndian.PutUint64(e, k.cookie)
		binary.LittleEndian.PutUint32(e[8:], k.done)
		e[24] = k.phase
		if k.at += bnxtEntry; k.at == len(k.ring) {
			k.at, k.phase = 0, k.phase^1
		}
	}
}
