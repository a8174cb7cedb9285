// SPDX-License-Identifier: Apache-2.0

package prm

// FlowIn is the common beginning of the commands of flow tables.
var FlowIn = struct {
	Opcode, UID, OpMod, Other, Vport, ModifySelect, TableType, GroupType, Table Field
	Group, StartIndex, Index, EndIndex, MatchEnable, ModifyMask                 Field
	TableContext                                                                Area // CREATE_FLOW_TABLE, MODIFY_FLOW_TABLE
	MatchMask                                                                   Area // CREATE_FLOW_GROUP
	Flow                                                                        Tail // SET_FLOW_TABLE_ENTRY
}{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod, Other: bit(0x08, 31), Vport: bits(0x08, 15, 0),
	ModifySelect: bits(0x0c, 15, 0), // MODIFY_FLOW_TABLE
	TableType:    bits(0x10, 31, 24),
	GroupType:    bits(0x10, 19, 16),                                                // CREATE_FLOW_GROUP
	Table:        bits(0x14, 23, 0),                                                 // not CREATE_FLOW_TABLE
	Group:        dword(0x18),                                                       // DESTROY_FLOW_GROUP
	ModifyMask:   bits(0x18, 7, 0),                                                  // SET_FLOW_TABLE_ENTRY
	StartIndex:   dword(0x1c), EndIndex: dword(0x24), MatchEnable: bits(0x3c, 7, 0), // CREATE_FLOW_GROUP
	Index:        dword(0x20), // of an entry
	TableContext: area(0x18, 40), MatchMask: area(0x40, MatchSize), Flow: 0x40,
}

// FlowTable is the context of a flow table.
var FlowTable = struct{ MissAction, Level, LogSize, MissTable Field }{
	MissAction: bits(0x00, 27, 24), Level: bits(0x00, 23, 16), LogSize: bits(0x00, 7, 0), MissTable: bits(0x04, 23, 0),
}

// FlowTableReceive is the kind of table for received frames, a value of FlowIn.TableType.
const FlowTableReceive = 0

// Values of FlowTable.MissAction, which determines the treatment of a frame without a matching
// entry. By default it is dropped.
const (
	MissDefault = 0
	MissTable   = 1
)

// ModifyMissTable is the bit of FlowIn.ModifySelect for the target of frames without a matching
// entry. ModifyFlowList is the bit of FlowIn.ModifyMask for destinations.
const (
	ModifyMissTable = 1 << 0
	ModifyFlowList  = 1 << 2
)

// RootDisconnect is SET_FLOW_TABLE_ROOT's OpMod for no table.
const RootDisconnect = 1

// Flow is an entry of a flow table. The destinations follow.
var Flow = struct {
	Group, Tag, Action, Destinations, Counters Field
	Match                                      Area
	List                                       Tail
}{
	Group: dword(0x04), Tag: bits(0x08, 23, 0), Action: bits(0x0c, 15, 0), Destinations: bits(0x10, 23, 0), Counters: bits(0x14, 23, 0),
	Match: area(0x40, MatchSize), List: FlowSize,
}

// FlowSize is the size of a Flow without its destinations.
const FlowSize = 0x300

// Bits of Flow.Action.
const (
	FlowAllow   = 1 << 0
	FlowDrop    = 1 << 1
	FlowForward = 1 << 2
	FlowCount   = 1 << 3
)

// Destination is a target of an entry.
var Destination = struct{ Type, Number Field }{Type: bits(0x00, 31, 24), Number: bits(0x00, 23, 0)}

// DestinationSize is its size.
const DestinationSize = 8

// Values of Destination.Type.
const (
	DestinationVport = 0
	DestinationTable = 1
	DestinationTIR   = 2
)

// MatchSize is the size of an entry's match fields and of the mask of its group.
const MatchSize = 0x200

// MatchOuter is the bit of FlowIn.MatchEnable for the headers of the frame itself, which are in
// Match.
const MatchOuter = 1 << 0

// Match contains the fields that can be matched, which are the headers of a frame.
var Match = struct {
	SMAC, DMAC                                  Area
	EtherType, VLANPrio, VLAN                   Field
	IPProtocol, DSCP, ECN, CVLANTag, SVLANTag   Field
	Fragment, IPVersion                         Field
	TCPSport, TCPDport, TTL, UDPSport, UDPDport Field
	SrcIP, DstIP                                Area // an IPv4 address is in the last 4 bytes
}{
	SMAC: area(0x00, 6), EtherType: bits(0x04, 15, 0), DMAC: area(0x08, 6), VLANPrio: bits(0x0c, 15, 13), VLAN: bits(0x0c, 11, 0),
	IPProtocol: bits(0x10, 31, 24), DSCP: bits(0x10, 23, 18), ECN: bits(0x10, 17, 16), CVLANTag: bit(0x10, 15), SVLANTag: bit(0x10, 14),
	Fragment: bit(0x10, 13), IPVersion: bits(0x10, 12, 9),
	TCPSport: bits(0x14, 31, 16), TCPDport: bits(0x14, 15, 0), TTL: bits(0x18, 7, 0), UDPSport: bits(0x1c, 31, 16), UDPDport: bits(0x1c, 15, 0),
	SrcIP: area(0x20, 16), DstIP: area(0x30, 16),
}

// MatchLen is the length of Match. A mask with bits after it is not supported.
const MatchLen = 0x40

// FlowTableFields contains the bits of FlowTableProps.Fields.
var FlowTableFields = struct {
	DMAC, SMAC, EtherType, IPVersion, VLANPrio, VLAN, SrcIP, DstIP, Fragment, IPProtocol, ECN, DSCP Field
	UDPSport, UDPDport, TCPSport, TCPDport                                                          Field
}{
	DMAC: bit(0x00, 31), SMAC: bit(0x00, 30), EtherType: bit(0x00, 29), IPVersion: bit(0x00, 28), VLANPrio: bit(0x00, 27), VLAN: bit(0x00, 25),
	SrcIP: bit(0x00, 19), DstIP: bit(0x00, 18), Fragment: bit(0x00, 17), IPProtocol: bit(0x00, 16), ECN: bit(0x00, 15), DSCP: bit(0x00, 14),
	UDPSport: bit(0x00, 13), UDPDport: bit(0x00, 12), TCPSport: bit(0x00, 11), TCPDport: bit(0x00, 10),
}
