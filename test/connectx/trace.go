// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
)

// Record is one thing that a device saw or did: a *[CommandRecord] and its siblings.
// Its String is one line. What it refers to is valid during the call of
// [Config.Trace].
type Record interface {
	fmt.Stringer
	// DeviceName is the device's.
	DeviceName() string
}

// CommandRecord is a firmware command and its answer.
type CommandRecord struct {
	Device  string
	Opcode  uint16
	In, Out []byte
	Err     error // why it was refused, or nil
}

// DeviceName returns r.Device.
func (r *CommandRecord) DeviceName() string { return r.Device }

func (r *CommandRecord) String() string {
	s := fmt.Sprintf("%s command %s in %d out %d", r.Device, CommandName(r.Opcode), len(r.In), len(r.Out))
	if r.Err != nil {
		return s + ": " + r.Err.Error()
	}
	if len(r.Out) >= prm.HeaderLen {
		return s + fmt.Sprintf(": %x", r.Out[8:prm.HeaderLen])
	}
	return s
}

// DoorbellRecord is a store to a register page.
type DoorbellRecord struct {
	Device string
	Page   uint32
	Offset int
	Bytes  []byte
}

// DeviceName returns r.Device.
func (r *DoorbellRecord) DeviceName() string { return r.Device }

func (r *DoorbellRecord) String() string {
	return fmt.Sprintf("%s doorbell page %#x+%#x %x", r.Device, r.Page, r.Offset, r.Bytes)
}

// EventRecord is an event in an event queue.
type EventRecord struct {
	Device string
	EQ     uint32
	Index  uint32 // how many were before it
	EQE    [prm.EQESize]byte
}

// DeviceName returns r.Device.
func (r *EventRecord) DeviceName() string { return r.Device }

func (r *EventRecord) String() string {
	return fmt.Sprintf("%s event %d of EQ %d: type %#x.%d %x", r.Device, r.Index, r.EQ,
		prm.EQE.Type.Get(r.EQE[:]), prm.EQE.SubType.Get(r.EQE[:]), prm.EQE.Data.Of(r.EQE[:]))
}
