// SPDX-License-Identifier: Apache-2.0

package provider

import "purerdma/abi"

// AHConfig configures an address handle.
type AHConfig struct {
	PD   PD
	Attr AHAttr
}

// AH is an address handle. It holds the address of a remote port in the device's format. Concrete
// types hold the fields that their driver's work requests need. The driver recovers its own type by
// a type assertion.
type AH interface {
	// Close destroys the AH. Requests that name it and have not completed may then fail.
	Close() error
}

// AHHolder is the type of SendWR.AH. Programs set the field to a *verbs.AH, which PD.CreateAH
// makes. No other type is needed. It is an interface because drivers do not import verbs.AH.
type AHHolder interface {
	// ProviderAH returns the driver's own object, a provider.AH, or nil after Close. It is called
	// for every request and must be cheap.
	ProviderAH() AH
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
