// SPDX-License-Identifier: Apache-2.0

package prm

// Opcodes of the commands that start and stop the device, and query and set its global
// properties.
const (
	OpQueryHCACap      = 0x100
	OpQueryAdapter     = 0x101
	OpInitHCA          = 0x102
	OpTeardownHCA      = 0x103
	OpEnableHCA        = 0x104
	OpDisableHCA       = 0x105
	OpQueryPages       = 0x107
	OpManagePages      = 0x108
	OpSetHCACap        = 0x109
	OpQueryISSI        = 0x10a
	OpSetISSI          = 0x10b
	OpSetDriverVersion = 0x10d

	OpQueryVportState       = 0x750
	OpModifyVportState      = 0x751
	OpQueryNICVportContext  = 0x754
	OpModifyNICVportContext = 0x755
	OpQueryHCAVportPKey     = 0x765
	OpQueryVportCounter     = 0x770
	OpAllocQCounter         = 0x771
	OpDeallocQCounter       = 0x772
	OpQueryQCounter         = 0x773

	OpAccessReg              = 0x805
	OpAllocTransportDomain   = 0x816
	OpDeallocTransportDomain = 0x817
)

// Opcodes of the commands of Ethernet.
const (
	OpCreateTIR  = 0x900
	OpModifyTIR  = 0x901
	OpDestroyTIR = 0x902
	OpQueryTIR   = 0x903
	OpCreateSQ   = 0x904
	OpModifySQ   = 0x905
	OpDestroySQ  = 0x906
	OpQuerySQ    = 0x907
	OpCreateRQ   = 0x908
	OpModifyRQ   = 0x909
	OpDestroyRQ  = 0x90a
	OpQueryRQ    = 0x90b
	OpCreateTIS  = 0x912
	OpModifyTIS  = 0x913
	OpDestroyTIS = 0x914
	OpQueryTIS   = 0x915
	OpCreateRQT  = 0x916
	OpModifyRQT  = 0x917
	OpDestroyRQT = 0x918
	OpQueryRQT   = 0x919

	OpSetFlowTableRoot     = 0x92f
	OpCreateFlowTable      = 0x930
	OpDestroyFlowTable     = 0x931
	OpCreateFlowGroup      = 0x933
	OpDestroyFlowGroup     = 0x934
	OpSetFlowTableEntry    = 0x936
	OpDeleteFlowTableEntry = 0x938
	OpModifyFlowTable      = 0x93c
)
