// SPDX-License-Identifier: Apache-2.0

package prm

// InitSegment is the beginning of BAR 0. It contains the data that a driver reads before there
// is a command queue, and the registers of that queue.
var InitSegment = struct {
	FWRevMinor, FWRevMajor, CmdInterfaceRev, FWRevSubminor Field
	CmdQAddrHigh, CmdQAddrLow, NICInterface                Field
	LogCmdQSize, LogCmdQStride                             Field
	CmdDoorbell, Initializing, ResetSupported              Field
	HealthFWVersion, HealthHWID, HealthRFR, HealthSyndrome Field
	InternalTimer                                          Field
	HealthCounter                                          Field
}{
	FWRevMinor: bits(0x00, 31, 16), FWRevMajor: bits(0x00, 15, 0),
	CmdInterfaceRev: bits(0x04, 31, 16), FWRevSubminor: bits(0x04, 15, 0),
	CmdQAddrHigh: dword(0x10), CmdQAddrLow: bits(0x14, 31, 12), NICInterface: bits(0x14, 10, 8),
	LogCmdQSize: bits(0x14, 7, 4), LogCmdQStride: bits(0x14, 3, 0),
	CmdDoorbell: dword(0x18), Initializing: bit(0x1fc, 31), ResetSupported: bit(0x1fc, 30),
	HealthFWVersion: dword(0x230), HealthHWID: dword(0x234),
	HealthRFR: bit(0x238, 31), HealthSyndrome: bits(0x23c, 23, 16),
	InternalTimer: qword(0x1000),
	HealthCounter: bits(0x1010, 23, 0),
}

// Values of InitSegment.HealthSyndrome: MLX5_INITIAL_SEG_HEALTH_SYNDROME_... of Linux.
const (
	HealthFirmware    = 0x01
	HealthNoResponse  = 0x07
	HealthHardware    = 0x08
	HealthTemperature = 0x10
)

// Values of NICInterface.
const (
	NICInterfaceFull     = 0
	NICInterfaceDisabled = 1
	NICInterfaceNoDRAM   = 2
	NICInterfaceSWReset  = 7
)

// CommandEntrySize is the size of an entry of the command queue.
const CommandEntrySize = 64

// CommandEntry is an entry of the command queue. In and Out are the first 16 bytes of a command
// and its answer. The remaining bytes are in mailboxes.
var CommandEntry = struct {
	Type, InLength, InMailbox     Field
	In, Out                       Area
	OutMailbox, OutLength         Field
	Token, Signature, Status, Own Field
}{
	Type: bits(0x00, 31, 24), InLength: dword(0x04), InMailbox: qword(0x08),
	In: area(0x10, 16), Out: area(0x20, 16),
	OutMailbox: qword(0x30), OutLength: dword(0x38),
	Token: bits(0x3c, 31, 24), Signature: bits(0x3c, 23, 16), Status: bits(0x3c, 7, 1), Own: bit(0x3c, 0),
}

// CommandEntryType is the type of all entries, a command through PCI.
const CommandEntryType = 7

// Mailbox is one block of a command after the first 16 bytes.
var Mailbox = struct {
	Data               Area
	Next, Block, Token Field
}{
	Data: area(0, 512), Next: qword(0x230), Block: dword(0x238), Token: bits(0x23c, 23, 16),
}

// MailboxSize is the size of a mailbox, including the fields after its data.
const MailboxSize = 576

// Delivery is the value of CommandEntry.Status, MLX5_CMD_DELIVERY_STAT_... of Linux. It is the
// result of the command's delivery to the firmware.
type Delivery uint8

// Deliveries.
const (
	DeliveryOK        Delivery = 0
	DeliveryToken     Delivery = 2
	DeliveryBlock     Delivery = 3
	DeliveryOutPtr    Delivery = 4
	DeliveryInPtr     Delivery = 5
	DeliveryInLength  Delivery = 7
	DeliveryOutLength Delivery = 8
	DeliveryEntry     Delivery = 0x10
)

// FunctionIn is the input of commands about a function: ENABLE_HCA, DISABLE_HCA,
// QUERY_PAGES and QUERY_HCA_CAP.
var FunctionIn = struct{ Opcode, OpMod, Other, Function Field }{
	Opcode: HeaderIn.Opcode, OpMod: HeaderIn.OpMod, Other: bit(0x08, 31), Function: bits(0x08, 15, 0),
}

// QueryPagesOut is the output of QUERY_PAGES. The number is signed.
var QueryPagesOut = struct{ Status, Syndrome, Function, Pages Field }{
	Status: HeaderOut.Status, Syndrome: HeaderOut.Syndrome, Function: bits(0x08, 15, 0), Pages: dword(0x0c),
}

// OpMod of QUERY_PAGES selects the pages.
const (
	PagesBoot    = 1
	PagesInit    = 2
	PagesRegular = 3
)

// ManagePagesIn is the input of MANAGE_PAGES.
var ManagePagesIn = struct {
	Opcode, OpMod, Function, Entries Field
	PAS                              Tail
}{
	Opcode: HeaderIn.Opcode, OpMod: HeaderIn.OpMod, Function: bits(0x08, 15, 0), Entries: dword(0x0c), PAS: 0x10,
}

// ManagePagesOut is its output.
var ManagePagesOut = struct {
	Status, Syndrome, Entries Field
	PAS                       Tail
}{
	Status: HeaderOut.Status, Syndrome: HeaderOut.Syndrome, Entries: dword(0x08), PAS: 0x10,
}

// OpMod of MANAGE_PAGES.
const (
	PagesCannotGive = 0
	PagesGive       = 1
	PagesTake       = 2
)

// ISSI is the version of the interface between the driver and the firmware, in SET_ISSI's input
// and QUERY_ISSI's output.
var ISSI = struct{ Current, Supported Field }{
	Current: bits(0x08, 15, 0), Supported: dword(0x6c),
}

// Adapter is the output of QUERY_ADAPTER.
var Adapter = struct {
	IEEEVendorID, VSDVendorID Field
	VSD, PSID                 Area
}{
	IEEEVendorID: bits(0x28, 23, 0), VSDVendorID: bits(0x2c, 15, 0),
	VSD: area(0x30, 208), PSID: area(0x100, 16),
}
