// SPDX-License-Identifier: Apache-2.0

package uverbstest

import "purerdma/abi"

// deviceAttr holds the attributes that the devices report.
var deviceAttr = abi.UverbsQueryDeviceResp{
	MaxMRSize: 1 << 40, PageSizeCap: 0xfffff000, MaxQP: 1024, MaxQPWR: 4096, MaxSGE: maxSGE, MaxSGERd: maxSGE,
	MaxCQ: 1024, MaxCQE: maxCQE, MaxMR: 1024, MaxPD: 1024, MaxQPRdAtom: 128, MaxResRdAtom: 1 << 16, MaxQPInitRdAtom: 128,
	MaxSRQ: 1024, MaxSRQWR: 1 << 20, MaxSRQSGE: maxSGE, MaxPKeys: 1, MaxAH: 32767, PhysPortCnt: 1,
}

// port describes the only port of a device.
var port = abi.UverbsQueryPortResp{
	State: 4, MaxMTU: 5, ActiveMTU: 3, MaxMsgSz: 1 << 23, GIDTblLen: 1024, PKeyTblLen: 1, PhysState: 5,
	LinkLayer: 2, // Ethernet
	Flags:     abi.IB_UVERBS_QPF_GRH_REQUIRED,
}
