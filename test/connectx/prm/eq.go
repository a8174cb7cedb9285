// SPDX-License-Identifier: Apache-2.0

package prm

// EQC is the context of an event queue.
var EQC = struct {
	Status, ErrorCollapse, OverrunIgnore, State, PageOffset, LogEQSize, UARPage, Intr, LogPageSize, ConsumerCounter, ProducerCounter Field
}{
	Status:          bits(0x00, 31, 28),
	ErrorCollapse:   bit(0x00, 18),
	OverrunIgnore:   bit(0x00, 17),
	State:           bits(0x00, 11, 8),
	PageOffset:      bits(0x08, 11, 6), // in 64ths of a page
	LogEQSize:       bits(0x0c, 28, 24),
	UARPage:         bits(0x0c, 23, 0),
	Intr:            bits(0x14, 11, 0),
	LogPageSize:     bits(0x18, 28, 24), // above 12
	ConsumerCounter: bits(0x28, 23, 0),
	ProducerCounter: bits(0x2c, 23, 0),
}

// States of an event queue.
const (
	EQStateArmed = 0x9
	EQStateFired = 0xa
)

// CreateEQIn is the input of CREATE_EQ. QUERY_EQ's output has the context and the
// events at the same places.
var CreateEQIn = struct {
	Opcode, UID, OpMod Field
	Context, Events    Area // Events has one bit for each type, in four qwords
	PAS                Tail
}{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	Context: area(0x10, 64),
	Events:  area(0x58, 32),
	PAS:     0x110,
}

// EQNumber is the field of an event queue's number in commands and answers.
var EQNumber = bits(0x08, 7, 0)

// EQESize is the size of an event.
const EQESize = 64

// EQE is one event. Data depends on its type.
var EQE = struct {
	Type, SubType    Field
	Data             Area
	Signature, Owner Field
}{
	Type:      bits(0x00, 23, 16),
	SubType:   bits(0x00, 7, 0),
	Data:      area(0x20, 28),
	Signature: bits(0x3c, 15, 8),
	Owner:     bit(0x3c, 0),
}

// EventType is the type of an event: MLX5_EVENT_TYPE_... of Linux.
type EventType uint8

// Types of events.
const (
	EventCompletion   EventType = 0x00
	EventPathMigrated EventType = 0x01
	EventCommEst      EventType = 0x02
	EventSQDrained    EventType = 0x03
	EventCQError      EventType = 0x04
	EventWQCatas      EventType = 0x05
	EventPathMigFail  EventType = 0x07
	EventInternalErr  EventType = 0x08
	EventPortChange   EventType = 0x09
	EventCommand      EventType = 0x0a
	EventPageRequest  EventType = 0x0b
	EventWQInvalidReq EventType = 0x10
	EventWQAccess     EventType = 0x11
	EventSRQCatas     EventType = 0x12
	EventSRQLastWQE   EventType = 0x13
	EventSRQLimit     EventType = 0x14
	EventGeneral      EventType = 0x22
	EventDCTDrained   EventType = 0x1c
	EventDCTKeyViol   EventType = 0x1d
)

// Data of events, by type.
var (
	// EventCQN is the number of the completion queue in EventCompletion.
	EventCQN = bits(0x18, 23, 0)
	// EventQPN and EventQueueType identify the queue in events of QPs and SRQs.
	EventQPN       = bits(0x18, 23, 0)
	EventQueueType = bits(0x14, 31, 24)
	// EventErrorCQN and EventCQSyndrome belong to EventCQError.
	EventErrorCQN   = bits(0x00, 23, 0)
	EventCQSyndrome = bits(0x08, 7, 0)
	// EventVector has one bit for each completed entry of the command queue.
	EventVector = dword(0x00)
	// EventPort is the port of EventPortChange.
	EventPort = bits(0x08, 31, 28)
)

// Values of EventQueueType.
const (
	QueueTypeQP  = 0
	QueueTypeRQ  = 1
	QueueTypeSQ  = 2
	QueueTypeDCT = 6
)

// Values of EventCQSyndrome.
const (
	CQSyndromeOverrun = 1
	CQSyndromeAccess  = 2
)

// SubType of EventPortChange.
const (
	PortDown        = 1
	PortActive      = 4
	PortInitialized = 5
	PortLID         = 6
	PortPKey        = 7
	PortGUID        = 8
)
