// SPDX-License-Identifier: Apache-2.0

package prm

// CapType is a group of capabilities. QUERY_HCA_CAP's OpMod contains the group above the bit
// that selects the maximum or the current values.
type CapType uint8

// Groups of capabilities.
const (
	CapGeneral   CapType = 0
	CapEthernet  CapType = 1
	CapODP       CapType = 2 // paging on demand, by transport
	CapAtomic    CapType = 3
	CapRoCE      CapType = 4
	CapFlowTable CapType = 7
)

// CapSize is the size of each group.
const CapSize = 4096

// HCACapIn is the input of SET_HCA_CAP. QUERY_HCA_CAP returns the group at the same place in
// its answer.
var HCACapIn = struct {
	Opcode, OpMod, Other, Function Field
	Caps                           Tail
}{
	Opcode: HeaderIn.Opcode, OpMod: HeaderIn.OpMod, Other: bit(0x08, 31), Function: bits(0x08, 15, 0), Caps: 0x10,
}

// Cap is the group of general capabilities.
var Cap = struct {
	VHCAID, LogMaxSRQSize, LogMaxQPSize, LogMaxQP, LogMaxSRQ, MaxSGLForOptimized                          Field
	LogMaxCQSize, LogMaxCQ, LogMaxEQSize, LogMaxMkey, LogMaxEQ, MaxIndirection                            Field
	FixedBufferSize, LogMaxMRWSize, NullMkey, LogMaxKLMListSize, LogMaxRAReqDC, LogMaxRAResDC             Field
	LogMaxRAReqQP, LogMaxRAResQP, EndPad, CacheLine128, GIDTableSize, VportCounters                       Field
	MaxQPCounters, PKeyTableSize, NICFlowTable, LocalCAAckDelay, PortType, NumPorts                       Field
	LogMaxMsg, MaxTC, CQEVersion, UMRModifyEntitySizeDisabled, UMRModifyAtomicDisabled, DCReqScatterToCQE Field
	CmdIFChecksum, ScatterToCQE, DCT, EthNetOffloads, RoCE, Atomic                                        Field
	CQOverrunIgnore, CQResize, CQModeration, BlockLBMC, UMRPtrRlky, IMAICL                                Field
	SetDETHSQPN, XRC, UD, UC, RC, UAR4K                                                                   Field
	LogPageSize, BlueFlame, DriverVersion, LogBFRegSize, MaxWQESizeSQ, MaxWQESizeRQ                       Field
	MaxWQESizeSQDC, MaxQPMCG, LogMaxMCG, LogMaxTransportDomain, LogMaxPD, LogMaxXRCD                      Field
	LogMaxRQ, LogMaxSQ, LogMaxTIR, LogMaxTIS, BasicCyclicRcvWQE, LogMaxRMP                                Field
	LogMaxRQT, LogMaxRQTSize, LogMaxTISPerSQ, LogMaxStrideRQ, LogMinStrideRQ, LogMaxStrideSQ              Field
	LogMinStrideSQ, LogMaxWQSize, DisableLocalLBUC, DisableLocalLBMC, LogMaxVLANList, LogMaxMCList        Field
	LogMaxUCList, MaxNumEQs, LogMaxL2Table, LogUARPageSize, FrequencyMHz, FrequencyKHz                    Field
	UARsPerPage, ECE, DumpFillMkey, Paging                                                                Field
}{
	VHCAID:                      bits(0x04, 15, 0),
	LogMaxSRQSize:               bits(0x10, 31, 24),
	LogMaxQPSize:                bits(0x10, 23, 16),
	LogMaxQP:                    bits(0x10, 4, 0),
	LogMaxSRQ:                   bits(0x14, 20, 16),
	MaxSGLForOptimized:          bits(0x18, 31, 24),
	LogMaxCQSize:                bits(0x18, 23, 16),
	LogMaxCQ:                    bits(0x18, 4, 0),
	LogMaxEQSize:                bits(0x1c, 31, 24),
	LogMaxMkey:                  bits(0x1c, 21, 16),
	LogMaxEQ:                    bits(0x1c, 3, 0),
	MaxIndirection:              bits(0x20, 31, 24),
	FixedBufferSize:             bit(0x20, 23),
	LogMaxMRWSize:               bits(0x20, 22, 16),
	NullMkey:                    bit(0x20, 6),
	LogMaxKLMListSize:           bits(0x20, 5, 0),
	LogMaxRAReqDC:               bits(0x24, 21, 16),
	LogMaxRAResDC:               bits(0x24, 5, 0),
	LogMaxRAReqQP:               bits(0x28, 21, 16),
	LogMaxRAResQP:               bits(0x28, 5, 0),
	EndPad:                      bit(0x2c, 31),
	CacheLine128:                bit(0x2c, 27),
	GIDTableSize:                bits(0x2c, 15, 0),
	VportCounters:               bit(0x30, 30),
	MaxQPCounters:               bits(0x30, 25, 16),
	PKeyTableSize:               bits(0x30, 15, 0),
	NICFlowTable:                bit(0x34, 25),
	LocalCAAckDelay:             bits(0x34, 20, 16),
	PortType:                    bits(0x34, 9, 8),
	NumPorts:                    bits(0x34, 7, 0),
	LogMaxMsg:                   bits(0x38, 28, 24),
	MaxTC:                       bits(0x38, 19, 16),
	CQEVersion:                  bits(0x3c, 3, 0),
	UMRModifyEntitySizeDisabled: bit(0x40, 24),
	UMRModifyAtomicDisabled:     bit(0x40, 23),
	DCReqScatterToCQE:           bit(0x40, 19),
	CmdIFChecksum:               bits(0x40, 15, 14),
	ScatterToCQE:                bit(0x40, 10),
	DCT:                         bit(0x40, 5),
	EthNetOffloads:              bit(0x40, 3),
	RoCE:                        bit(0x40, 2),
	Atomic:                      bit(0x40, 1),
	CQOverrunIgnore:             bit(0x44, 31),
	CQResize:                    bit(0x44, 30),
	CQModeration:                bit(0x44, 29),
	Paging:                      bit(0x44, 24), // the PRM's pg
	BlockLBMC:                   bit(0x44, 23),
	UMRPtrRlky:                  bit(0x44, 15),
	IMAICL:                      bit(0x44, 14),
	SetDETHSQPN:                 bit(0x44, 7),
	XRC:                         bit(0x44, 3),
	UD:                          bit(0x44, 2),
	UC:                          bit(0x44, 1),
	RC:                          bit(0x44, 0),
	UAR4K:                       bit(0x48, 31),
	LogPageSize:                 bits(0x48, 7, 0),
	BlueFlame:                   bit(0x4c, 31),
	DriverVersion:               bit(0x4c, 30),
	LogBFRegSize:                bits(0x4c, 20, 16),
	MaxWQESizeSQ:                bits(0x50, 15, 0),
	MaxWQESizeRQ:                bits(0x54, 15, 0),
	MaxWQESizeSQDC:              bits(0x58, 15, 0),
	MaxQPMCG:                    bits(0x5c, 24, 0),
	LogMaxMCG:                   bits(0x60, 7, 0),
	LogMaxTransportDomain:       bits(0x64, 28, 24),
	LogMaxPD:                    bits(0x64, 20, 16),
	LogMaxXRCD:                  bits(0x64, 4, 0),
	LogMaxRQ:                    bits(0x6c, 28, 24),
	LogMaxSQ:                    bits(0x6c, 20, 16),
	LogMaxTIR:                   bits(0x6c, 12, 8),
	LogMaxTIS:                   bits(0x6c, 4, 0),
	BasicCyclicRcvWQE:           bit(0x70, 31),
	LogMaxRMP:                   bits(0x70, 28, 24),
	LogMaxRQT:                   bits(0x70, 20, 16),
	LogMaxRQTSize:               bits(0x70, 12, 8),
	LogMaxTISPerSQ:              bits(0x70, 4, 0),
	LogMaxStrideRQ:              bits(0x74, 28, 24),
	LogMinStrideRQ:              bits(0x74, 20, 16),
	LogMaxStrideSQ:              bits(0x74, 12, 8),
	LogMinStrideSQ:              bits(0x74, 4, 0),
	LogMaxWQSize:                bits(0x78, 4, 0),
	DisableLocalLBUC:            bit(0x7c, 30),
	DisableLocalLBMC:            bit(0x7c, 29),
	LogMaxVLANList:              bits(0x7c, 20, 16),
	LogMaxMCList:                bits(0x7c, 12, 8),
	LogMaxUCList:                bits(0x7c, 4, 0),
	MaxNumEQs:                   bits(0x8c, 15, 0),
	LogMaxL2Table:               bits(0x90, 28, 24),
	LogUARPageSize:              bits(0x90, 15, 0),
	FrequencyMHz:                dword(0x98),
	FrequencyKHz:                dword(0x9c),
	UARsPerPage:                 dword(0xa4),
	ECE:                         bit(0x14, 28),
	DumpFillMkey:                bit(0x1c, 7),
}

// PortTypeEthernet is a value of Cap.PortType.
const PortTypeEthernet = 1

// EthernetCap is the group of the capabilities for frames.
var EthernetCap = struct {
	Checksum, VLAN, SelfLBModifiable, MaxLSO, InlineMode, RSSTable Field
}{
	Checksum: bit(0x00, 31), VLAN: bit(0x00, 30), SelfLBModifiable: bit(0x00, 23), MaxLSO: bits(0x00, 20, 16),
	InlineMode: bits(0x00, 13, 12), RSSTable: bits(0x00, 11, 8),
}

// AtomicCap is the group of atomic operations.
var AtomicCap = struct {
	Endianness, Supported8B, Operations, SizeQP, SizeDC Field
}{
	Endianness: bits(0x08, 31, 30), Supported8B: bit(0x08, 25), Operations: bits(0x10, 15, 0), SizeQP: bits(0x14, 15, 0), SizeDC: bits(0x18, 15, 0),
}

// Values of AtomicCap.Operations.
const (
	AtomicCompareSwap = 1 << 0
	AtomicFetchAdd    = 1 << 1
)

// RoCECap is the group of RoCE.
var RoCECap = struct {
	L3Type, Version, DestPort, MaxSrcPort, MinSrcPort, AddressTableSize Field
}{
	L3Type: bits(0x10, 19, 16), Version: bits(0x10, 7, 0), DestPort: bits(0x14, 15, 0),
	MaxSrcPort: bits(0x18, 31, 16), MinSrcPort: bits(0x18, 15, 0), AddressTableSize: bits(0x1c, 15, 0),
}

// Bits of RoCECap.
const (
	RoCECapVersion1 = 1 << 0
	RoCECapVersion2 = 1 << 2
	RoCECapL3IPv4   = 1 << 1
	RoCECapL3IPv6   = 1 << 2
)

// FlowTableCap is the group of flow tables. Receive is a FlowTableProps.
var FlowTableCap = struct{ Receive Area }{Receive: area(0x40, 64)}

// FlowTableProps contains the capabilities of flow tables of one kind.
var FlowTableProps = struct {
	Support, FlowModify, ModifyRoot, IdentifiedMiss, TableModify Field
	LogMaxSize, MaxLevel, LogMaxTables, LogMaxDestination        Field
	LogMaxFlow                                                   Field
	Fields                                                       Area // fields that can be matched, a FlowTableFields
}{
	Support: bit(0x00, 31), FlowModify: bit(0x00, 28), ModifyRoot: bit(0x00, 27), IdentifiedMiss: bit(0x00, 26), TableModify: bit(0x00, 25),
	LogMaxSize: bits(0x04, 29, 24), MaxLevel: bits(0x04, 7, 0), LogMaxTables: bits(0x0c, 7, 0), LogMaxDestination: bits(0x10, 7, 0),
	LogMaxFlow: bits(0x14, 7, 0), Fields: area(0x20, 16),
}
