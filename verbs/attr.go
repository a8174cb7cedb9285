// SPDX-License-Identifier: Apache-2.0

package verbs

import "purerdma/abi"

// QPAttrFromKernel converts the answer of the connection manager's INIT_QP_ATTR.
// On iWARP the kernel moves the QP itself, and the mask for RTS then holds no
// QPAttrState: Modify with such a mask leaves the state alone.
func QPAttrFromKernel(k *abi.UverbsQPAttr) (QPAttr, QPAttrMask) {
	return QPAttr{
		State:            QPState(k.QPState),
		CurState:         QPState(k.CurQPState),
		PathMTU:          MTU(k.PathMTU),
		PathMigState:     MigState(k.PathMigState),
		QKey:             k.QKey,
		RQPSN:            k.RQPSN,
		SQPSN:            k.SQPSN,
		DestQPNum:        k.DestQPNum,
		Access:           Access(k.QPAccessFlags),
		AH:               AHAttrFromKernel(&k.AHAttr),
		AltAH:            AHAttrFromKernel(&k.AltAHAttr),
		PKeyIndex:        k.PKeyIndex,
		AltPKeyIndex:     k.AltPKeyIndex,
		EnSQDAsyncNotify: k.EnSQDAsyncNotify != 0,
		SQDraining:       k.SQDraining != 0,
		MaxRdAtomic:      k.MaxRdAtomic,
		MaxDestRdAtomic:  k.MaxDestRdAtomic,
		MinRNRTimer:      k.MinRNRTimer,
		Port:             k.PortNum,
		Timeout:          k.Timeout,
		RetryCnt:         k.RetryCnt,
		RNRRetry:         k.RNRRetry,
		AltPort:          k.AltPortNum,
		AltTimeout:       k.AltTimeout,
		Cap: QPCap{
			SendWR:  int(k.MaxSendWR),
			RecvWR:  int(k.MaxRecvWR),
			SendSGE: int(k.MaxSendSGE),
			RecvSGE: int(k.MaxRecvSGE),
			Inline:  int(k.MaxInlineData),
		},
	}, QPAttrMask(k.QPAttrMask)
}

// QPAttrToKernel is the inverse of QPAttrFromKernel. RateLimit has no place in
// the kernel's struct.
func QPAttrToKernel(a *QPAttr, mask QPAttrMask) abi.UverbsQPAttr {
	return abi.UverbsQPAttr{
		QPAttrMask:       uint32(mask),
		QPState:          uint32(a.State),
		CurQPState:       uint32(a.CurState),
		PathMTU:          uint32(a.PathMTU),
		PathMigState:     uint32(a.PathMigState),
		QKey:             a.QKey,
		RQPSN:            a.RQPSN,
		SQPSN:            a.SQPSN,
		DestQPNum:        a.DestQPNum,
		QPAccessFlags:    uint32(a.Access),
		AHAttr:           AHAttrToKernel(&a.AH),
		AltAHAttr:        AHAttrToKernel(&a.AltAH),
		MaxSendWR:        uint32(a.Cap.SendWR),
		MaxRecvWR:        uint32(a.Cap.RecvWR),
		MaxSendSGE:       uint32(a.Cap.SendSGE),
		MaxRecvSGE:       uint32(a.Cap.RecvSGE),
		MaxInlineData:    uint32(a.Cap.Inline),
		PKeyIndex:        a.PKeyIndex,
		AltPKeyIndex:     a.AltPKeyIndex,
		EnSQDAsyncNotify: bit(a.EnSQDAsyncNotify),
		SQDraining:       bit(a.SQDraining),
		MaxRdAtomic:      a.MaxRdAtomic,
		MaxDestRdAtomic:  a.MaxDestRdAtomic,
		MinRNRTimer:      a.MinRNRTimer,
		PortNum:          a.Port,
		Timeout:          a.Timeout,
		RetryCnt:         a.RetryCnt,
		RNRRetry:         a.RNRRetry,
		AltPortNum:       a.AltPort,
		AltTimeout:       a.AltTimeout,
	}
}

// AHAttrFromKernel converts an address of the kernel, as INIT_QP_ATTR and the
// connection manager's events hold.
func AHAttrFromKernel(k *abi.UverbsAHAttr) AHAttr {
	return AHAttr{
		Global: k.IsGlobal != 0,
		GRH: GlobalRoute{
			DGID:         k.GRH.DGID,
			FlowLabel:    k.GRH.FlowLabel,
			SGIDIndex:    k.GRH.SGIDIndex,
			HopLimit:     k.GRH.HopLimit,
			TrafficClass: k.GRH.TrafficClass,
		},
		DLID:        k.DLID,
		SL:          k.SL,
		SrcPathBits: k.SrcPathBits,
		StaticRate:  k.StaticRate,
		Port:        k.PortNum,
	}
}

// AHAttrToKernel is the inverse of AHAttrFromKernel.
func AHAttrToKernel(a *AHAttr) abi.UverbsAHAttr {
	return abi.UverbsAHAttr{
		GRH: abi.UverbsGlobalRoute{
			DGID:         a.GRH.DGID,
			FlowLabel:    a.GRH.FlowLabel,
			SGIDIndex:    a.GRH.SGIDIndex,
			HopLimit:     a.GRH.HopLimit,
			TrafficClass: a.GRH.TrafficClass,
		},
		DLID:        a.DLID,
		SL:          a.SL,
		SrcPathBits: a.SrcPathBits,
		StaticRate:  a.StaticRate,
		IsGlobal:    bit(a.Global),
		PortNum:     a.Port,
	}
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
