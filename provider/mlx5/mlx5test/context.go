// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/uverbs"
)

func (c *context) handleContext() {
	c.Attr = deviceAttr()
	c.own = ownAttr()
	c.Port = fakeuverbs.RoCEPort()
	c.Port.PortCapFlags = 0x04010000
	c.GIDs = []abi.UverbsGIDEntry{fakeuverbs.IPv4GID(c.Info)}
	if f := c.k.Device; f != nil {
		f(&c.Attr, &c.own, &c.Port)
	}
	c.HandleRest()
	c.Handle(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT, c.getContext)
	c.Command(abi.IB_USER_VERBS_CMD_FLAG_EXTENDED|abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE, func(cmd *fakeuverbs.Command) error {
		cmd.AnswerDriver(abi.Bytes(&c.own))
		return c.QueryDeviceEx(cmd)
	})
	c.Command(abi.IB_USER_VERBS_CMD_ALLOC_PD, func(cmd *fakeuverbs.Command) error {
		p, err := c.NewPD(cmd)
		if err != nil {
			return err
		}
		r := abi.Mlx5AllocPDResp{PDN: 0x1001}
		if c.Context.Hardware != nil {
			r.PDN = p.Number
		}
		cmd.AnswerDriver(abi.Bytes(&r))
		return nil
	})
	c.driverAnswer(abi.IB_USER_VERBS_CMD_CREATE_AH, c.CreateAH, abi.Bytes(&abi.Mlx5CreateAHResp{
		ResponseLength: uint32(abi.Size[abi.Mlx5CreateAHResp]()), DMAC: [6]uint8{2, 0, 0, 0, 0, 9},
	}))
	c.Command(abi.IB_USER_VERBS_CMD_ALLOC_MW, func(cmd *fakeuverbs.Command) error {
		if len(cmd.DriverIn) >= abi.Size[abi.Mlx5AllocMW]() {
			if in := abi.View[abi.Mlx5AllocMW](cmd.DriverIn); in.CompMask != 0 || in.Reserved1 != 0 || in.Reserved2 != 0 {
				return syscall.EOPNOTSUPP
			}
		}
		return c.AllocMW(cmd)
	})
}

// driverAnswer registers run for a command, with own as the driver's part of every response.
func (c *context) driverAnswer(code uint32, run func(*fakeuverbs.Command) error, own []byte) {
	c.Command(code, func(cmd *fakeuverbs.Command) error {
		if err := run(cmd); err != nil {
			return err
		}
		cmd.AnswerDriver(own)
		return nil
	})
}

// deviceAttr returns the attributes of a ConnectX-5 with large limits.
func deviceAttr() abi.UverbsExQueryDeviceResp {
	return abi.UverbsExQueryDeviceResp{
		Base: abi.UverbsQueryDeviceResp{
			FWVer: 22<<32 | 36<<16 | 1010, MaxMRSize: ^uint64(0), PageSizeCap: 0xfffff000, VendorID: 0x2c9, VendorPartID: 4121,
			MaxQP: 1 << 18, MaxQPWR: 32768, DeviceCapFlags: 0xe5721c36, MaxSGE: 30, MaxSGERd: 30,
			MaxCQ: 1 << 24, MaxCQE: 1<<22 - 1, MaxMR: 1 << 24, MaxPD: 1 << 24,
			MaxQPRdAtom: 16, MaxResRdAtom: 1 << 22, MaxQPInitRdAtom: 16, AtomicCap: 1,
			MaxMW: 1 << 24, MaxAH: 1 << 30, MaxSRQ: 1 << 23, MaxSRQWR: 32767, MaxSRQSGE: 31, MaxPKeys: 128,
			LocalCAAckDelay: 16, PhysPortCnt: 1,
		},
	}
}

func ownAttr() abi.Mlx5QueryDeviceResp {
	return abi.Mlx5QueryDeviceResp{
		ResponseLength: uint32(abi.Size[abi.Mlx5QueryDeviceResp]()),
		TSOCaps:        abi.Mlx5TSOCaps{MaxTSO: 1 << 18, SupportedQPTs: 1<<abi.IB_UVERBS_QPT_RAW_PACKET | 1<<abi.IB_UVERBS_QPT_UD},
		CQECompCaps:    abi.Mlx5CQECompCaps{MaxNum: 64, SupportedFormat: abi.MLX5_IB_CQE_RES_FORMAT_HASH | abi.MLX5_IB_CQE_RES_FORMAT_CSUM},
		Flags:          abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP | abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD,
	}
}

// getContext responds like alloc_ucontext of mlx5_ib.
func (c *context) getContext(req *uverbs.Request) error {
	var in abi.Mlx5AllocUcontextReqV2
	raw := fakeuverbs.DriverIn(req)
	if len(raw) < abi.Size[abi.Mlx5AllocUcontextReq]() {
		return syscall.EINVAL
	}
	copy(abi.Bytes(&in), raw)
	switch {
	case in.Flags&^abi.MLX5_IB_ALLOC_UCTX_DEVX != 0:
		return syscall.EINVAL
	case in.CompMask != 0 || in.Reserved0 != 0 || in.Reserved1 != 0 || in.Reserved2 != 0:
		return syscall.EOPNOTSUPP
	case in.Flags != 0: // the error that a program without privileges gets
		return syscall.EPERM
	}
	c.resp = abi.Mlx5AllocUcontextResp{
		QPTabSize: 1 << 18, BFRegSize: 512, CacheLineSize: 64, MaxSQDescSz: 1024, MaxRQDescSz: 512, MaxSendWQEBB: 32768,
		MaxRecvWR: 32768, MaxSRQRecvWR: 32767, NumPorts: 1,
		CompMask:       abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE | abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS,
		ResponseLength: uint32(abi.Size[abi.Mlx5AllocUcontextResp]()),
		CQEVersion:     min(in.MaxCQEVersion, 1),
		CmdsSuppUHW:    abi.MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | abi.MLX5_USER_CMDS_SUPP_UHW_CREATE_AH,
		EthMinInline:   abi.MLX5_USER_INLINE_MODE_NONE,
		LogUARSize:     12, NumUARsPerPage: 1, NumDynBFRegs: 1024,
	}
	c.dynamic = !c.k.LegacyUAR && in.LibCaps&abi.MLX5_LIB_CAP_DYN_UAR != 0
	if !c.dynamic {
		const perPage, slow = 2, 4 // registers per page, and the number of registers that are not of low latency
		if in.TotalNumBFRegs == 0 || in.TotalNumBFRegs > 512 {
			return syscall.EINVAL
		}
		in.TotalNumBFRegs = (in.TotalNumBFRegs + perPage - 1) &^ (perPage - 1)
		if in.TotalNumBFRegs < slow || in.NumLowLatencyBFRegs > in.TotalNumBFRegs-slow {
			return syscall.EINVAL
		}
		c.resp.TotBFRegs = in.TotalNumBFRegs
	}
	if f := c.k.Context; f != nil {
		f(&in, &c.resp)
	}
	fakeuverbs.PutDriver(req, &c.resp)
	return c.GetContext(req)
}
