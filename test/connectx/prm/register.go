// SPDX-License-Identifier: Apache-2.0

package prm

// AccessRegister is the input and the output of ACCESS_REG, without the data that follow.
var AccessRegister = struct {
	Opcode, OpMod, ID, Argument Field
	Data                        Tail
}{
	Opcode: HeaderIn.Opcode, OpMod: HeaderIn.OpMod, ID: bits(0x08, 15, 0), Argument: dword(0x0c), Data: 0x10,
}

// OpMod of ACCESS_REG.
const (
	RegisterWrite = 0
	RegisterRead  = 1
)

// Numbers of registers.
const (
	RegPMTU           = 0x5003
	RegPTYS           = 0x5004
	RegPAOS           = 0x5006
	RegPPCNT          = 0x5008
	RegNodeDesc       = 0x6001
	RegHostEndianness = 0x7004
)

// LocalPort is the field of the port's number in registers of ports.
var LocalPort = bits(0x00, 23, 16)

// PMTU is the register of a port's MTU.
var PMTU = struct{ LocalPort, Max, Admin, Oper Field }{
	LocalPort: LocalPort, Max: bits(0x04, 31, 16), Admin: bits(0x08, 31, 16), Oper: bits(0x0c, 31, 16),
}

// PTYS is the register of a port's type and speed.
var PTYS = struct {
	LocalPort, ProtoMask, EthCapability, EthAdmin, EthOper Field
}{
	LocalPort: LocalPort, ProtoMask: bits(0x00, 2, 0), EthCapability: dword(0x0c), EthAdmin: dword(0x18), EthOper: dword(0x24),
}

// PTYSEthernet is PTYS's ProtoMask for Ethernet, and PTYS100GCR4 one of its speeds.
const (
	PTYSEthernet = 1 << 2
	PTYS100GCR4  = 1 << 20
)

// PAOS is the register that sets a port up and down.
var PAOS = struct{ LocalPort, Admin, Oper, AdminEnable Field }{
	LocalPort: LocalPort, Admin: bits(0x00, 11, 8), Oper: bits(0x00, 3, 0), AdminEnable: bit(0x04, 31),
}

// Values of PAOS.
const (
	PAOSUp   = 1
	PAOSDown = 2
)

// PPCNTGroup is the field of the PPCNT register that selects the counters of a port. PPCNT802_3
// selects the counters of the standard.
var PPCNTGroup = bits(0x00, 5, 0)

const PPCNT802_3 = 0x0
