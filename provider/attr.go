// SPDX-License-Identifier: Apache-2.0

package provider

import "purerdma/abi"

// ModifyCommand returns the kernel's command for a Modify.
func ModifyCommand(qp uint32, a *QPAttr, mask QPAttrMask) abi.UverbsModifyQP {
	cmd := abi.UverbsModifyQP{
		QPHandle:         qp,
		AttrMask:         uint32(mask),
		QKey:             a.QKey,
		RQPSN:            a.RQPSN,
		SQPSN:            a.SQPSN,
		DestQPNum:        a.DestQPNum,
		QPAccessFlags:    uint32(a.Access),
		PKeyIndex:        a.PKeyIndex,
		AltPKeyIndex:     a.AltPKeyIndex,
		QPState:          uint8(a.State),
		CurQPState:       uint8(a.CurState),
		PathMTU:          uint8(a.PathMTU),
		PathMigState:     uint8(a.PathMigState),
		EnSQDAsyncNotify: bit(a.EnSQDAsyncNotify),
		MaxRdAtomic:      a.MaxRdAtomic,
		MaxDestRdAtomic:  a.MaxDestRdAtomic,
		MinRNRTimer:      a.MinRNRTimer,
		PortNum:          a.Port,
		Timeout:          a.Timeout,
		RetryCnt:         a.RetryCount,
		RNRRetry:         a.RNRRetryCount,
		AltPortNum:       a.AltPort,
		AltTimeout:       a.AltTimeout,
	}
	// The kernel reads the addresses only if the mask has them, as few changes do.
	if mask&QPAttrAV != 0 {
		cmd.Dest = destToKernel(&a.AH)
	}
	if mask&QPAttrAltPath != 0 {
		cmd.AltDest = destToKernel(&a.AltAH)
	}
	return cmd
}

// AttrFromQuery converts the kernel's response to a query.
func AttrFromQuery(r *abi.UverbsQueryQPResp) QPAttr {
	return QPAttr{
		State:           QPState(r.QPState),
		CurState:        QPState(r.CurQPState),
		PathMTU:         MTU(r.PathMTU),
		PathMigState:    MigState(r.PathMigState),
		QKey:            r.QKey,
		RQPSN:           r.RQPSN,
		SQPSN:           r.SQPSN,
		DestQPNum:       r.DestQPNum,
		Access:          Access(r.QPAccessFlags),
		AH:              destFromKernel(&r.Dest),
		AltAH:           destFromKernel(&r.AltDest),
		Cap:             QPCap{SendWR: int(r.MaxSendWR), RecvWR: int(r.MaxRecvWR), SendSGE: int(r.MaxSendSGE), RecvSGE: int(r.MaxRecvSGE), Inline: int(r.MaxInlineData)},
		PKeyIndex:       r.PKeyIndex,
		AltPKeyIndex:    r.AltPKeyIndex,
		SQDraining:      r.SQDraining != 0,
		MaxRdAtomic:     r.MaxRdAtomic,
		MaxDestRdAtomic: r.MaxDestRdAtomic,
		MinRNRTimer:     r.MinRNRTimer,
		Port:            r.PortNum,
		Timeout:         r.Timeout,
		RetryCount:      r.RetryCnt,
		RNRRetryCount:   r.RNRRetry,
		AltPort:         r.AltPortNum,
		AltTimeout:      r.AltTimeout,
	}
}

func destToKernel(a *AHAttr) abi.UverbsQPDest {
	return abi.UverbsQPDest{
		DGID:         a.GRH.DGID,
		FlowLabel:    a.GRH.FlowLabel,
		DLID:         a.DLID,
		SGIDIndex:    a.GRH.SGIDIndex,
		HopLimit:     a.GRH.HopLimit,
		TrafficClass: a.GRH.TrafficClass,
		SL:           a.SL,
		SrcPathBits:  a.SrcPathBits,
		StaticRate:   a.StaticRate,
		IsGlobal:     bit(a.Global),
		PortNum:      a.Port,
	}
}

func destFromKernel(d *abi.UverbsQPDest) AHAttr {
	return AHAttr{
		Global:      d.IsGlobal != 0,
		GRH:         GlobalRoute{DGID: d.DGID, FlowLabel: d.FlowLabel, SGIDIndex: d.SGIDIndex, HopLimit: d.HopLimit, TrafficClass: d.TrafficClass},
		DLID:        d.DLID,
		SL:          d.SL,
		SrcPathBits: d.SrcPathBits,
		StaticRate:  d.StaticRate,
		Port:        d.PortNum,
	}
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// AttrFromKernel converts the response of the connection manager's INIT_QP_ATTR into a, and returns
// the mask of its attributes. On iWARP the kernel moves the QP itself, and the mask for RTS then
// holds no QPAttrState. Modify with such a mask leaves the state unchanged.
func AttrFromKernel(a *QPAttr, k *abi.UverbsQPAttr) QPAttrMask {
	*a = QPAttr{
		State:            QPState(k.QPState),
		CurState:         QPState(k.CurQPState),
		PathMTU:          MTU(k.PathMTU),
		PathMigState:     MigState(k.PathMigState),
		QKey:             k.QKey,
		RQPSN:            k.RQPSN,
		SQPSN:            k.SQPSN,
		DestQPNum:        k.DestQPNum,
		Access:           Access(k.QPAccessFlags),
		PKeyIndex:        k.PKeyIndex,
		AltPKeyIndex:     k.AltPKeyIndex,
		EnSQDAsyncNotify: k.EnSQDAsyncNotify != 0,
		SQDraining:       k.SQDraining != 0,
		MaxRdAtomic:      k.MaxRdAtomic,
		MaxDestRdAtomic:  k.MaxDestRdAtomic,
		MinRNRTimer:      k.MinRNRTimer,
		Port:             k.PortNum,
		Timeout:          k.Timeout,
		RetryCount:       k.RetryCnt,
		RNRRetryCount:    k.RNRRetry,
		AltPort:          k.AltPortNum,
		AltTimeout:       k.AltTimeout,
		Cap: QPCap{
			SendWR:  int(k.MaxSendWR),
			RecvWR:  int(k.MaxRecvWR),
			SendSGE: int(k.MaxSendSGE),
			RecvSGE: int(k.MaxRecvSGE),
			Inline:  int(k.MaxInlineData),
		},
	}
	mask := QPAttrMask(k.QPAttrMask)
	if mask&QPAttrAV != 0 {
		a.AH = AHAttrFromKernel(&k.AHAttr)
	}
	if mask&QPAttrAltPath != 0 {
		a.AltAH = AHAttrFromKernel(&k.AltAHAttr)
	}
	return mask
}
