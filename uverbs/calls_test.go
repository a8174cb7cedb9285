// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uverbs

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"syscall"
	"time"

	"purerdma/abi"
)

// call is one call of one function of this package.
type call struct {
	name string // of the function
	run  func(*File, *objects) error
}

// objects holds the objects and the memory that earlier calls created and later calls use.
type objects struct {
	mem          []byte
	gid          [16]byte // of the port
	gidIndex     uint8
	channel      *CompChannel
	async        *AsyncChannel
	pd, dm, dmah uint32
	mr           MR
	cq           CQ
	qp, ud       QP
	srq          SRQ
	wq           WQ
	table        RWQIndTable
	mw           MW
	ah, xrcd     uint32
	flow, action uint32
	counters     uint32
	cntr         uint32
}

// uhw returns a response buffer that is large enough for each of the software drivers.
func uhw(n int) Driver { return Driver{Out: make([]byte, n)} }

// mcast is the GID of the multicast group 224.9.9.9.
var mcast = netip.MustParseAddr("::ffff:224.9.9.9").As16()

const localWrite = abi.IB_UVERBS_ACCESS_LOCAL_WRITE

// calls returns a call of every function of this package that is a command, in an order in
// which they succeed on one device.
func calls() []call {
	return []call{
		{"GetContext", func(f *File, o *objects) error { _, err := f.GetContext(Driver{}); return err }},
		{"QueryContext", func(f *File, o *objects) error { _, err := f.QueryContext(); return err }},
		{"QueryDevice", func(f *File, o *objects) error { _, err := f.QueryDevice(); return err }},
		{"QueryDeviceEx", func(f *File, o *objects) error { _, err := f.QueryDeviceEx(Driver{}); return err }},
		{"QueryPort", func(f *File, o *objects) error { _, err := f.QueryPort(1); return err }},
		{"QueryPortSpeed", func(f *File, o *objects) error { _, err := f.QueryPortSpeed(1); return err }},
		{"QueryGIDTable", func(f *File, o *objects) error {
			gids, err := f.QueryGIDTable(64)
			for _, g := range gids {
				if g.GIDType == abi.IB_UVERBS_GID_TYPE_ROCE_V2 && netip.AddrFrom16(g.GID).Is4In6() {
					o.gid, o.gidIndex = g.GID, uint8(g.GIDIndex)
				}
			}
			return err
		}},
		{"QueryGIDEntry", func(f *File, o *objects) error { _, err := f.QueryGIDEntry(1, uint32(o.gidIndex)); return err }},
		{"AllocAsync", func(f *File, o *objects) (err error) { o.async, err = f.AllocAsync(); return err }},
		{"AsyncChannel.Next", func(f *File, o *objects) error {
			if o.async == nil {
				return os.ErrDeadlineExceeded
			}
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			_, err := o.async.Next(ctx)
			return err
		}},
		{"CreateCompChannel", func(f *File, o *objects) (err error) { o.channel, err = f.CreateCompChannel(); return err }},
		{"AllocPD", func(f *File, o *objects) (err error) { o.pd, err = f.AllocPD(Driver{}); return err }},
		{"InfoHandles", func(f *File, o *objects) error {
			list, err := f.InfoHandles(abi.UVERBS_OBJECT_PD, 8)
			if err == nil && (len(list) != 1 || list[0] != o.pd) {
				return errors.New("handles of other objects than the PD")
			}
			return err
		}},
		{"RegMR", func(f *File, o *objects) (err error) {
			o.mr, err = f.RegMR(o.pd, o.mem, 0x1000, localWrite, uhw(8))
			return err
		}},
		{"QueryMR", func(f *File, o *objects) error { _, err := f.QueryMR(o.mr.Handle); return err }},
		{"AdviseMR", func(f *File, o *objects) error {
			// rxe of Linux 7 accepts advice about pinned memory, and the kernel crashes. If the
			// device has only pinned memory, this test makes no call.
			piece := abi.UverbsSGE{Addr: 0x1000, Length: 8}
			if mr, err := f.RegMR(o.pd, o.mem, 0x1000, localWrite|abi.IB_UVERBS_ACCESS_ON_DEMAND, uhw(8)); err == nil {
				defer f.DeregMR(mr.Handle)
				piece.LKey = mr.LKey
			}
			return f.AdviseMR(o.pd, abi.IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, 0, []abi.UverbsSGE{piece})
		}},
		{"ReregMR", func(f *File, o *objects) error {
			_, err := f.ReregMR(o.mr.Handle, ReregAccess, o.pd, nil, 0, localWrite|abi.IB_UVERBS_ACCESS_REMOTE_READ, Driver{})
			return err
		}},
		{"RegMRMethod", func(f *File, o *objects) error {
			mr, err := f.RegMRMethod(o.pd, o.mem, 0x1000, localWrite, RegMROptions{}, Driver{})
			if err != nil {
				return err
			}
			return f.DeregMR(mr.Handle)
		}},
		{"RegDMABufMR", func(f *File, o *objects) error {
			_, err := f.RegDMABufMR(o.pd, DMABuf{FD: 0, Length: 4096}, 0, localWrite)
			return err
		}},
		{"AllocDM", func(f *File, o *objects) (err error) { o.dm, err = f.AllocDM(4096, 12); return err }},
		{"RegDMMR", func(f *File, o *objects) error {
			_, err := f.RegDMMR(o.pd, o.dm, 0, 4096, abi.IB_UVERBS_ACCESS_ZERO_BASED)
			return err
		}},
		{"FreeDM", func(f *File, o *objects) error { return f.FreeDM(o.dm) }},
		{"AllocDMAH", func(f *File, o *objects) (err error) {
			cpu, mem, ph := uint32(0), uint8(1), uint8(1)
			o.dmah, err = f.AllocDMAH(DMAHConfig{CPU: &cpu, MemType: &mem, PH: &ph})
			return err
		}},
		{"FreeDMAH", func(f *File, o *objects) error { return f.FreeDMAH(o.dmah) }},
		{"AllocDMABuf", func(f *File, o *objects) (err error) {
			file, err := f.AllocDMABuf(0)
			if err == nil {
				file.Close()
			}
			return err
		}},
		{"AllocMW", func(f *File, o *objects) (err error) { o.mw, err = f.AllocMW(o.pd, 1, Driver{}); return err }},
		{"CreateAH", func(f *File, o *objects) (err error) {
			o.ah, err = f.CreateAH(o.pd, abi.UverbsAHAttr{
				GRH: abi.UverbsGlobalRoute{DGID: o.gid, SGIDIndex: o.gidIndex, HopLimit: 64}, IsGlobal: 1, PortNum: 1,
			}, 0, uhw(8))
			return err
		}},
		{"CreateCQ", func(f *File, o *objects) (err error) {
			o.cq, err = f.CreateCQ(CQConfig{Entries: 100, UserHandle: 7, Channel: o.channel, Events: o.async}, uhw(16))
			return err
		}},
		{"CreateCQ with flags", func(f *File, o *objects) error {
			_, err := f.CreateCQ(CQConfig{Entries: 100, Flags: abi.IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION}, uhw(16))
			return err
		}},
		{"ReqNotifyCQ", func(f *File, o *objects) error { return f.ReqNotifyCQ(o.cq.Handle, true) }},
		{"Notifier.Notify", func(f *File, o *objects) error { return f.NewNotifier(o.cq.Handle).Notify(false) }},
		{"ResizeCQ", func(f *File, o *objects) error { _, err := f.ResizeCQ(o.cq.Handle, 200, uhw(16)); return err }},
		{"PollCQ", func(f *File, o *objects) error { _, err := f.PollCQ(o.cq.Handle, make([]abi.UverbsWC, 2)); return err }},
		{"ModifyCQ", func(f *File, o *objects) error {
			return f.ModifyCQ(o.cq.Handle, abi.UverbsCQModeration{CQCount: 4, CQPeriod: 10})
		}},
		{"CreateSRQ", func(f *File, o *objects) (err error) {
			o.srq, err = f.CreateSRQ(SRQConfig{PD: o.pd, UserHandle: 8, MaxWR: 10, MaxSGE: 1, Events: o.async}, uhw(24))
			return err
		}},
		{"QuerySRQ", func(f *File, o *objects) error { _, err := f.QuerySRQ(o.srq.Handle); return err }},
		{"ModifySRQ", func(f *File, o *objects) error {
			return f.ModifySRQ(&abi.UverbsModifySRQ{SRQHandle: o.srq.Handle, AttrMask: SRQLimit, SRQLimit: 2}, Driver{In: make([]byte, 8)})
		}},
		{"PostSRQRecv", func(f *File, o *objects) error {
			_, err := f.PostSRQRecv(o.srq.Handle, []abi.UverbsRecvWR{{WRID: 1, NumSGE: 1}}, []abi.UverbsSGE{{Length: 8, LKey: o.mr.LKey}})
			return err
		}},
		{"CreateSRQ of type XRC", func(f *File, o *objects) error {
			_, err := f.CreateSRQ(SRQConfig{Type: abi.IB_UVERBS_SRQT_XRC, PD: o.pd, CQ: o.cq.Handle, XRCD: o.xrcd, MaxWR: 10, MaxSGE: 1}, uhw(24))
			return err
		}},
		{"CreateSRQ of type TM", func(f *File, o *objects) error {
			_, err := f.CreateSRQ(SRQConfig{Type: abi.IB_UVERBS_SRQT_TM, PD: o.pd, CQ: o.cq.Handle, MaxTags: 4, MaxWR: 10, MaxSGE: 1}, uhw(24))
			return err
		}},
		{"CreateQP", func(f *File, o *objects) (err error) {
			o.qp, err = f.CreateQP(QPConfig{
				Type: abi.IB_UVERBS_QPT_RC, PD: o.pd, SendCQ: o.cq.Handle, RecvCQ: o.cq.Handle, UserHandle: 9,
				Cap: abi.UverbsQPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}, Flags: abi.IB_UVERBS_QP_CREATE_SQ_SIG_ALL, Events: o.async,
			}, uhw(32))
			return err
		}},
		{"CreateQP of type UD", func(f *File, o *objects) (err error) {
			o.ud, err = f.CreateQP(QPConfig{
				Type: abi.IB_UVERBS_QPT_UD, PD: o.pd, SendCQ: o.cq.Handle, RecvCQ: o.cq.Handle, SRQ: &o.srq.Handle,
				Cap: abi.UverbsQPCap{MaxSendWR: 4, MaxSendSGE: 1},
			}, uhw(32))
			return err
		}},
		{"CreateQP with a source", func(f *File, o *objects) error {
			_, err := f.CreateQP(QPConfig{
				Type: abi.IB_UVERBS_QPT_UD, PD: o.pd, SendCQ: o.cq.Handle, RecvCQ: o.cq.Handle, SourceQPN: 17,
				Cap: abi.UverbsQPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
			}, uhw(32))
			return err
		}},
		{"CreateQP of type XRC_TGT", func(f *File, o *objects) error {
			_, err := f.CreateQP(QPConfig{Type: abi.IB_UVERBS_QPT_XRC_TGT, XRCD: &o.xrcd}, Driver{})
			return err
		}},
		{"CreateQP of type XRC_INI", func(f *File, o *objects) error {
			_, err := f.CreateQP(QPConfig{
				Type: abi.IB_UVERBS_QPT_XRC_INI, PD: o.pd, SendCQ: o.cq.Handle, Cap: abi.UverbsQPCap{MaxSendWR: 4, MaxSendSGE: 1},
			}, uhw(32))
			return err
		}},
		{"CreateQP with a table", func(f *File, o *objects) error {
			_, err := f.CreateQP(QPConfig{Type: abi.IB_UVERBS_QPT_RAW_PACKET, PD: o.pd, IndTable: &o.table.Handle}, uhw(32))
			return err
		}},
		{"OpenQP", func(f *File, o *objects) error { _, err := f.OpenQP(o.xrcd, o.qp.Num, 0, Driver{}); return err }},
		{"QueryQP", func(f *File, o *objects) error { _, err := f.QueryQP(o.qp.Handle, 1); return err }},
		{"ModifyQP", func(f *File, o *objects) error {
			const state, pkey, port, access = 1 << 0, 1 << 4, 1 << 5, 1 << 3 // IB_QP_...
			return f.ModifyQP(&abi.UverbsModifyQP{QPHandle: o.qp.Handle, AttrMask: state | pkey | port | access, QPState: 1, PortNum: 1})
		}},
		{"ModifyQPEx", func(f *File, o *objects) error {
			return f.ModifyQPEx(&abi.UverbsExModifyQP{Base: abi.UverbsModifyQP{QPHandle: o.qp.Handle, AttrMask: 1, QPState: 6}}, Driver{})
		}},
		{"PostSend", func(f *File, o *objects) error {
			_, err := f.PostSend(o.qp.Handle, []abi.UverbsSendWR{{WRID: 1, NumSGE: 1, Opcode: abi.IB_UVERBS_WR_SEND}}, []abi.UverbsSGE{{Length: 8, LKey: o.mr.LKey}})
			return err
		}},
		{"PostRecv", func(f *File, o *objects) error {
			_, err := f.PostRecv(o.qp.Handle, []abi.UverbsRecvWR{{WRID: 1, NumSGE: 1}}, []abi.UverbsSGE{{Length: 8, LKey: o.mr.LKey}})
			return err
		}},
		{"Doorbell.Ring", func(f *File, o *objects) error { return f.NewDoorbell(o.qp.Handle).Ring() }},
		{"AttachMcast", func(f *File, o *objects) error { return f.AttachMcast(o.ud.Handle, mcast, 0) }},
		{"DetachMcast", func(f *File, o *objects) error { return f.DetachMcast(o.ud.Handle, mcast, 0) }},
		{"CreateWQ", func(f *File, o *objects) (err error) {
			o.wq, err = f.CreateWQ(WQConfig{PD: o.pd, CQ: o.cq.Handle, MaxWR: 4, MaxSGE: 1, Events: o.async}, Driver{})
			return err
		}},
		{"ModifyWQ", func(f *File, o *objects) error {
			return f.ModifyWQ(&abi.UverbsExModifyWQ{AttrMask: 1, WQHandle: o.wq.Handle, WQState: 1}, Driver{})
		}},
		{"CreateRWQIndTable", func(f *File, o *objects) (err error) {
			o.table, err = f.CreateRWQIndTable(0, []uint32{o.wq.Handle}, Driver{})
			return err
		}},
		{"DestroyRWQIndTable", func(f *File, o *objects) error { return f.DestroyRWQIndTable(o.table.Handle) }},
		{"DestroyWQ", func(f *File, o *objects) error { return f.DestroyWQ(o.wq.Handle) }},
		{"OpenXRCD", func(f *File, o *objects) (err error) {
			o.xrcd, err = f.OpenXRCD(-1, syscall.O_CREAT, Driver{})
			return err
		}},
		{"CloseXRCD", func(f *File, o *objects) error { return f.CloseXRCD(o.xrcd) }},
		{"CreateFlow", func(f *File, o *objects) (err error) {
			spec := abi.UverbsFlowSpecActionDrop{Type: 0x1001, Size: 8}
			o.flow, err = f.CreateFlow(o.ud.Handle, abi.UverbsFlowAttr{Size: 8, NumOfSpecs: 1, Port: 1}, abi.Bytes(&spec), Driver{})
			return err
		}},
		{"DestroyFlow", func(f *File, o *objects) error { return f.DestroyFlow(o.flow) }},
		{"CreateFlowActionESP", func(f *File, o *objects) (err error) { o.action, err = f.CreateFlowActionESP(esp()); return err }},
		{"ModifyFlowActionESP", func(f *File, o *objects) error {
			a := esp()
			a.Replay, a.NoReplay = nil, true
			return f.ModifyFlowActionESP(o.action, a)
		}},
		{"DestroyFlowAction", func(f *File, o *objects) error { return f.DestroyFlowAction(o.action) }},
		{"CreateCounters", func(f *File, o *objects) (err error) { o.counters, err = f.CreateCounters(); return err }},
		{"ReadCounters", func(f *File, o *objects) error { return f.ReadCounters(o.counters, make([]uint64, 3), 0) }},
		{"DestroyCounters", func(f *File, o *objects) error { return f.DestroyCounters(o.counters) }},
		{"QueryCompCntrCaps", func(f *File, o *objects) error { _, err := f.QueryCompCntrCaps(); return err }},
		{"CreateCompCntr", func(f *File, o *objects) (err error) { o.cntr, err = f.CreateCompCntr(); return err }},
		{"ModifyCompCntr", func(f *File, o *objects) error { return f.ModifyCompCntr(o.cntr, 0, 0, 1) }},
		{"ReadCompCntr", func(f *File, o *objects) error { _, err := f.ReadCompCntr(o.cntr, 0); return err }},
		{"AttachCompCntr", func(f *File, o *objects) error {
			return f.AttachCompCntr(o.qp.Handle, o.cntr, abi.IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND)
		}},
		{"DestroyCompCntr", func(f *File, o *objects) error { return f.DestroyCompCntr(o.cntr) }},
		{"DestroyQP", func(f *File, o *objects) error {
			return errors.Join(f.DestroyQP(o.qp.Handle), f.DestroyQP(o.ud.Handle))
		}},
		{"DestroySRQ", func(f *File, o *objects) error { return f.DestroySRQ(o.srq.Handle) }},
		{"DestroyCQ", func(f *File, o *objects) error { return f.DestroyCQ(o.cq.Handle) }},
		{"DestroyAH", func(f *File, o *objects) error { return f.DestroyAH(o.ah) }},
		{"DeallocMW", func(f *File, o *objects) error { return f.DeallocMW(o.mw.Handle) }},
		{"DeregMR", func(f *File, o *objects) error { return f.DeregMR(o.mr.Handle) }},
		{"DeallocPD", func(f *File, o *objects) error { return f.DeallocPD(o.pd) }},
	}
}

func esp() FlowActionESP {
	esn := uint32(1)
	return FlowActionESP{
		Attrs: &abi.UverbsFlowActionESP{SPI: 1}, ESN: &esn, Keymat: &abi.UverbsFlowActionESPKeymatAESGCM{KeyLen: 32, ICVLen: 16},
		Replay: &abi.UverbsFlowActionESPReplayBmp{Size: 64}, Encap: &abi.UverbsFlowActionESPEncap{},
	}
}

// close closes the event files.
func (o *objects) close() {
	if o.channel != nil {
		o.channel.Close()
	}
	if o.async != nil {
		o.async.Close()
	}
}
