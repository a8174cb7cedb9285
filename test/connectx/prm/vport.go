// SPDX-License-Identifier: Apache-2.0

package prm

// VportIn is the input of commands on a vport without further parameters.
var VportIn = struct{ Opcode, OpMod, Other, Vport, ListType, AdminState Field }{
	Opcode: HeaderIn.Opcode, OpMod: HeaderIn.OpMod, Other: bit(0x08, 31), Vport: bits(0x08, 15, 0),
	ListType:   bits(0x0c, 26, 24), // QUERY_NIC_VPORT_CONTEXT
	AdminState: bits(0x0c, 7, 4),   // MODIFY_VPORT_STATE
}

// VportState is the output of QUERY_VPORT_STATE. 1 is up.
var VportState = struct{ Admin, State Field }{
	Admin: bits(0x0c, 7, 4), State: bits(0x0c, 3, 0),
}

// Values of MODIFY_VPORT_STATE's AdminState.
const (
	VportDown   = 0
	VportUp     = 1
	VportFollow = 2
)

// QueryNICVportOut is the output of QUERY_NIC_VPORT_CONTEXT. The list follows the context.
var QueryNICVportOut = struct {
	Context Area
	List    Tail
}{Context: area(0x10, 256), List: 0x110}

// ModifyNICVportIn is the input of MODIFY_NIC_VPORT_CONTEXT. The bits select the fields to
// change.
// taken.
var ModifyNICVportIn = struct {
	Opcode, OpMod, Other, Vport                                   Field
	DisableUCLocalLB, DisableMCLocalLB, NodeGUID, PortGUID        Field
	MinInline, MTU, ChangeEvent, Promisc, Permanent, List, RoCEEn Field
	Context                                                       Area
	Addresses                                                     Tail
}{
	Opcode: HeaderIn.Opcode, OpMod: HeaderIn.OpMod, Other: bit(0x08, 31), Vport: bits(0x08, 15, 0),
	DisableUCLocalLB: bit(0x0c, 11), DisableMCLocalLB: bit(0x0c, 10), NodeGUID: bit(0x0c, 9), PortGUID: bit(0x0c, 8),
	MinInline: bit(0x0c, 7), MTU: bit(0x0c, 6), ChangeEvent: bit(0x0c, 5), Promisc: bit(0x0c, 4), Permanent: bit(0x0c, 3),
	List: bit(0x0c, 2), RoCEEn: bit(0x0c, 1),
	Context: area(0x100, 256), Addresses: 0x200,
}

// NICVport is the context of a vport.
var NICVport = struct {
	MinWQEInline, DisableMCLocalLB, DisableUCLocalLB, RoCEEn Field
	ArmChangeEvent, Events, MTU                              Field
	SystemImageGUID, PortGUID, NodeGUID                      Field
	PromiscUC, PromiscMC, PromiscAll, ListType, ListSize     Field
	Permanent                                                Area // a MACAddress
}{
	MinWQEInline: bits(0x00, 26, 24), DisableMCLocalLB: bit(0x00, 2), DisableUCLocalLB: bit(0x00, 1), RoCEEn: bit(0x00, 0),
	ArmChangeEvent: bit(0x04, 31), Events: bits(0x04, 4, 0), MTU: bits(0x24, 15, 0),
	SystemImageGUID: qword(0x28), PortGUID: qword(0x30), NodeGUID: qword(0x38),
	PromiscUC: bit(0xf0, 31), PromiscMC: bit(0xf0, 30), PromiscAll: bit(0xf0, 29),
	ListType: bits(0xf0, 26, 24), ListSize: bits(0xf0, 11, 0),
	Permanent: area(0xf4, 8),
}

// Kinds of list of a vport.
const (
	ListUnicast   = 0
	ListMulticast = 1
	ListVLAN      = 2
)

// MACAddress is an address in a list, with 48 bits after 16 reserved bits. MACSize is the size
// of an entry. VLANSize is the size of an entry in a list of VLANs.
var MACAddress = struct{ MAC Area }{MAC: area(2, 6)}

const (
	MACSize  = 8
	VLANSize = 4
)

// QCounterIn is the input of DEALLOC_Q_COUNTER. QCounterOut is the output of ALLOC_Q_COUNTER.
var (
	QCounterIn  = struct{ Opcode, OpMod, ID Field }{HeaderIn.Opcode, HeaderIn.OpMod, bits(0x08, 7, 0)}
	QCounterOut = struct{ ID Field }{bits(0x08, 7, 0)}
)

// QueryQCounterIn is the input of QUERY_Q_COUNTER.
var QueryQCounterIn = struct{ Opcode, OpMod, Clear, ID Field }{
	Opcode: HeaderIn.Opcode, OpMod: HeaderIn.OpMod, Clear: bit(0x18, 31), ID: bits(0x1c, 7, 0),
}

// PKeyIn is the input of QUERY_HCA_VPORT_PKEY. The answer is a list of dwords, with the P_Key
// in the low half of each.
var PKeyIn = struct{ Opcode, OpMod, Vport, Index Field }{
	Opcode: HeaderIn.Opcode, OpMod: HeaderIn.OpMod, Vport: bits(0x08, 15, 0), Index: bits(0x0c, 15, 0),
}

// PKeyOut is the first entry of that list.
var PKeyOut = struct{ PKey Field }{bits(0x10, 15, 0)}

// QueryQCounterOut is its output.
var QueryQCounterOut = struct{ OutOfBuffer Field }{dword(0x30)}
