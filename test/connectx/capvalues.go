// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"fmt"

	"purerdma/test/connectx/prm"
)

// value is the value of one capability.
type value struct {
	field prm.Field
	v     uint64
}

// capValues lists the capabilities of the device. mlx5_core, mlx5e, mlx5_ib or libmlx5 use each
// of them. The missing capabilities would make them request more.
var capValues = map[prm.CapType][]value{
	prm.CapGeneral: {
		// Transports and operations.
		{prm.Cap.RC, 1}, {prm.Cap.UC, 1}, {prm.Cap.UD, 1}, {prm.Cap.XRC, 1}, {prm.Cap.DCT, 1}, {prm.Cap.Atomic, 1}, {prm.Cap.SetDETHSQPN, 1},
		{prm.Cap.IMAICL, 1}, {prm.Cap.UMRPtrRlky, 1}, {prm.Cap.CQEVersion, 1}, {prm.Cap.LogMaxMsg, 30},
		{prm.Cap.ScatterToCQE, 1}, {prm.Cap.ECE, 1},
		{prm.Cap.LogMaxRAReqQP, 4}, {prm.Cap.LogMaxRAResQP, 4}, {prm.Cap.LocalCAAckDelay, 16},
		{prm.Cap.BlueFlame, 1}, {prm.Cap.LogBFRegSize, 9}, {prm.Cap.UARsPerPage, 1}, {prm.Cap.UAR4K, 1},
		// Queues.
		{prm.Cap.LogMaxQP, logMaxQP}, {prm.Cap.LogMaxQPSize, 15}, {prm.Cap.MaxWQESizeSQ, 1024}, {prm.Cap.MaxWQESizeRQ, 512},
		{prm.Cap.LogMaxSRQ, logMaxSRQ}, {prm.Cap.LogMaxSRQSize, maxLogSRQ}, {prm.Cap.LogMaxRMP, 12}, {prm.Cap.LogMaxXRCD, logMaxXRCD},
		{prm.Cap.LogMaxCQ, logMaxCQ}, {prm.Cap.LogMaxCQSize, maxLogCQ}, {prm.Cap.CQModeration, 1}, {prm.Cap.CQResize, 1},
		{prm.Cap.LogMaxEQ, 6}, {prm.Cap.LogMaxEQSize, maxLogEQ}, {prm.Cap.MaxNumEQs, 32},
		{prm.Cap.LogMaxMCG, logMaxMCG}, {prm.Cap.MaxQPMCG, maxQPMCG}, {prm.Cap.MaxQPCounters, 64},
		// Memory.
		{prm.Cap.LogMaxPD, logMaxPD}, {prm.Cap.LogMaxMkey, logMaxMkey}, {prm.Cap.LogMaxMRWSize, 64}, {prm.Cap.LogMaxKLMListSize, 16},
		{prm.Cap.MaxIndirection, 4}, {prm.Cap.FixedBufferSize, 1}, {prm.Cap.NullMkey, 1}, {prm.Cap.DumpFillMkey, 1}, {prm.Cap.EndPad, 1},
		{prm.Cap.MaxSGLForOptimized, 16}, {prm.Cap.LogPageSize, 12}, {prm.Cap.Paging, 1},
		// The port.
		{prm.Cap.PortType, prm.PortTypeEthernet}, {prm.Cap.NumPorts, 1}, {prm.Cap.RoCE, 1}, {prm.Cap.VportCounters, 1},
		{prm.Cap.FrequencyKHz, 1000}, {prm.Cap.FrequencyMHz, 1},
		// Ethernet.
		{prm.Cap.EthNetOffloads, 1}, {prm.Cap.NICFlowTable, 1}, {prm.Cap.MaxTC, 8}, {prm.Cap.LogMaxTransportDomain, logMaxTransportDomain},
		{prm.Cap.LogMaxRQ, logMaxRQ}, {prm.Cap.LogMaxSQ, 16}, {prm.Cap.LogMaxTIR, logMaxTIR}, {prm.Cap.LogMaxTIS, logMaxTIS}, {prm.Cap.LogMaxRQT, logMaxRQT},
		{prm.Cap.LogMaxRQTSize, logMaxRQTSize}, {prm.Cap.LogMaxWQSize, maxLogWQ}, {prm.Cap.BasicCyclicRcvWQE, 1},
		{prm.Cap.LogMaxStrideRQ, 10}, {prm.Cap.LogMinStrideRQ, 4}, {prm.Cap.LogMaxStrideSQ, 6}, {prm.Cap.LogMinStrideSQ, 6},
		{prm.Cap.LogMaxUCList, logMaxUCList}, {prm.Cap.LogMaxMCList, logMaxMCList}, {prm.Cap.LogMaxVLANList, logMaxVLANList},
		{prm.Cap.DisableLocalLBUC, 1}, {prm.Cap.DisableLocalLBMC, 1},
	},
	prm.CapEthernet: {
		{prm.EthernetCap.Checksum, 1}, {prm.EthernetCap.VLAN, 1}, {prm.EthernetCap.MaxLSO, logMaxLSO}, {prm.EthernetCap.RSSTable, logMaxRQTSize},
		{prm.EthernetCap.SelfLBModifiable, 1},
	},
	// Pages of memory may be missing. Linux needs this for dma-bufs, which may move. No
	// transport waits for a missing page.
	prm.CapODP: {},
	prm.CapAtomic: {
		{prm.AtomicCap.Operations, prm.AtomicCompareSwap | prm.AtomicFetchAdd}, {prm.AtomicCap.SizeQP, 8}, {prm.AtomicCap.Supported8B, 1},
		{prm.AtomicCap.Endianness, 1},
	},
	prm.CapRoCE: {
		{prm.RoCECap.Version, prm.RoCECapVersion1 | prm.RoCECapVersion2}, {prm.RoCECap.L3Type, prm.RoCECapL3IPv4 | prm.RoCECapL3IPv6},
		{prm.RoCECap.AddressTableSize, GIDs},
		{prm.RoCECap.DestPort, 4791}, {prm.RoCECap.MinSrcPort, 0xc000}, {prm.RoCECap.MaxSrcPort, 0xffff},
	},
}

// receiveTables contains the capabilities of flow tables for received frames. matchable
// contains the fields that their entries can match.
var (
	receiveTables = []value{
		{prm.FlowTableProps.Support, 1}, {prm.FlowTableProps.FlowModify, 1}, {prm.FlowTableProps.ModifyRoot, 1},
		{prm.FlowTableProps.IdentifiedMiss, 1}, {prm.FlowTableProps.TableModify, 1},
		{prm.FlowTableProps.LogMaxSize, logMaxTableSize}, {prm.FlowTableProps.MaxLevel, maxTableLevel}, {prm.FlowTableProps.LogMaxTables, logMaxFlowTables},
		{prm.FlowTableProps.LogMaxDestination, logMaxDestination}, {prm.FlowTableProps.LogMaxFlow, logMaxFlow},
	}
	matchable = []prm.Field{
		prm.FlowTableFields.DMAC, prm.FlowTableFields.SMAC, prm.FlowTableFields.EtherType, prm.FlowTableFields.IPVersion,
		prm.FlowTableFields.VLAN, prm.FlowTableFields.VLANPrio, prm.FlowTableFields.SrcIP, prm.FlowTableFields.DstIP,
		prm.FlowTableFields.Fragment, prm.FlowTableFields.IPProtocol, prm.FlowTableFields.UDPSport, prm.FlowTableFields.UDPDport,
		prm.FlowTableFields.TCPSport, prm.FlowTableFields.TCPDport,
	}
)

// greatestCaps contains the maximum capabilities by group, as QUERY_HCA_CAP returns them.
var greatestCaps = encodeCaps()

func encodeCaps() map[prm.CapType][]byte {
	groups := map[prm.CapType][]byte{prm.CapFlowTable: make([]byte, prm.CapSize)}
	for t, values := range capValues {
		groups[t] = make([]byte, prm.CapSize)
		for _, v := range values {
			v.field.Set(groups[t], v.v)
		}
	}
	props := prm.FlowTableCap.Receive.Of(groups[prm.CapFlowTable])
	for _, v := range receiveTables {
		v.field.Set(props, v.v)
	}
	for _, f := range matchable {
		f.Set(prm.FlowTableProps.Fields.Of(props), 1)
	}
	return groups
}

// difference describes the first dword in which two groups differ.
func difference(a, b []byte) string {
	for i := 0; i+4 <= min(len(a), len(b)); i += 4 {
		if x, y := binary.BigEndian.Uint32(a[i:]), binary.BigEndian.Uint32(b[i:]); x != y {
			return fmt.Sprintf("%#08x at %#x, not %#08x", y, i, x)
		}
	}
	return "nothing"
}
