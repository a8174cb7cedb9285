// SPDX-License-Identifier: Apache-2.0

package prm

// RoCEAddress is one entry of the table of addresses of a RoCE port.
var RoCEAddress = struct {
	Address                                        Area
	VLANValid, VLAN, MACHigh, MACLow, L3Type, Vers Field
}{
	Address:   area(0x00, 16),
	VLANValid: bit(0x10, 28),
	VLAN:      bits(0x10, 27, 16),
	MACHigh:   bits(0x10, 15, 0),
	MACLow:    dword(0x14),
	L3Type:    bits(0x18, 11, 8),
	Vers:      bits(0x18, 7, 0),
}

// Values of RoCEAddress.L3Type and RoCEAddress.Vers.
const (
	L3IPv4 = 0
	L3IPv6 = 1
	RoCEv1 = 0
	RoCEv2 = 2
)

// RoCEAddressIn is the input of SET_ROCE_ADDRESS and QUERY_ROCE_ADDRESS. The output of the
// query contains the address at the same place.
var RoCEAddressIn = struct {
	Opcode, UID, OpMod, Index, Port Field
	Address                         Area
}{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	Index: bits(0x08, 31, 16), Port: bits(0x08, 3, 0),
	Address: area(0x10, 32),
}

// Opcodes of the table.
const (
	OpQueryRoCEAddress = 0x760
	OpSetRoCEAddress   = 0x761
)
