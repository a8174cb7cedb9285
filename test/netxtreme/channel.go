// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"errors"
	"fmt"

	"purerdma/test/pci"
)

// channel is the queue of RCFW commands.
type channel struct {
	registers [4]uint32 // description of the queue
	commands  *queue    // nil until the first command
	answers   *nq
	ready     bool // whether the driver has initialized the firmware
}

// Statuses of RCFW.
const (
	channelFail       commandStatus = 1
	channelNoResource commandStatus = 2
	channelUnknown    commandStatus = 3 // command
	channelInvalid    commandStatus = 5 // parameter
)

// Types of entries of the queue of answers, and of their events.
const (
	channelEvent = 0x38 // an answer or an event of a QP
	eventQPError = 0xc0
)

// Limits of the channel.
const (
	maxSlots   = 32      // of a command
	maxChannel = 1 << 14 // slots of the queue
	maxSide    = 0x200   // bytes of an answer in the host's memory
)

// channelFirst is a bit of the producer index of the first command. channelTLV starts a command in
// several parts.
const (
	channelFirst = 1 << 31
	channelTLV   = 0x8000
)

// writeChannel handles a store to a register of the channel.
func (d *Device) writeChannel(off int, v uint32) {
	if off != regChannelTrigger {
		d.registers[(off-regChannel)/4] = v
		return
	}
	prod := d.registers[3]
	if prod&channelFirst != 0 || d.commands == nil {
		if err := d.openChannel(); err != nil {
			d.violation("RCFW channel", "%v", err)
			return
		}
	}
	q := d.commands
	q.pi = q.ci + uint32(uint16(prod)-uint16(q.ci))
	if q.pi-q.ci > q.depth {
		d.violation("RCFW channel", "a doorbell with index %#x, but the device is at %#x", uint16(prod), uint16(q.ci))
		q.pi = q.ci
	}
	for d.commands == q && q.ci != q.pi && d.executeCommand() {
	}
}

// openChannel creates the queue that the registers describe.
func (d *Device) openChannel() error {
	addr := uint64(d.registers[0]) | uint64(d.registers[1])<<32
	config, ring := d.registers[2]&0xffff, uint16(d.registers[2]>>16)
	q := &queue{d: d, kind: "RCFW channel", depth: config >> 2}
	var err error
	switch {
	case q.depth < 2 || q.depth&(q.depth-1) != 0 || q.depth > maxChannel:
		return fmt.Errorf("%d descriptors, want a power of two", q.depth)
	case d.nqs[ring] == nil:
		return fmt.Errorf("there is no notification queue %d", ring)
	}
	if q.buffer, err = d.pages(addr, int(config&3), 0, uint64(q.depth)*entrySize); err != nil {
		return err
	}
	d.commands, d.answers = q, d.nqs[ring]
	return nil
}

// An rcfwCommand is a command of the channel. in contains the request, and zeros after its end.
// answer contains the fields of the answer. side is the part of the answer in the host's memory,
// whose size is chosen by the driver.
type rcfwCommand struct {
	name string
	run  func(d *Device, in []byte, answer *[entrySize]byte, side []byte) error
}

// beforeReady contains the commands that are allowed before the firmware is initialized:
// INITIALIZE_FW, QUERY_FUNC and QUERY_VERSION.
var beforeReady = map[uint8]bool{0x80: true, 0x83: true, 0x8b: true}

// executeCommand executes one command. It returns false if the queue cannot continue.
func (d *Device) executeCommand() bool {
	q := d.commands
	var in [maxSlots * entrySize]byte
	first := q.entry(q.ci)
	if first == nil {
		d.violation("RCFW channel", "the host has removed its memory")
		q.ci = q.pi
		return false
	}
	slots := uint32(first[1])
	at := 0
	if le.Uint16(first) == channelTLV {
		slots, at = uint32(first[8]), entrySize
	}
	if slots == 0 || slots > maxSlots || slots > q.pi-q.ci {
		d.violation("RCFW channel", "a command of %d descriptors, with %d of %d", slots, q.pi-q.ci, maxSlots)
		q.ci = q.pi
		return false
	}
	for i := range slots {
		b := q.entry(q.ci + i)
		if b == nil {
			d.violation("RCFW channel", "the host has removed its memory")
			q.ci = q.pi
			return false
		}
		copy(in[i*entrySize:], b)
	}
	q.ci += slots
	d.command(in[at:])
	return true
}

// command executes a command and answers it.
func (d *Device) command(in []byte) {
	c, ok := rcfwCommands[in[0]]
	var answer [entrySize]byte
	var buffer [maxSide]byte
	var side []byte
	if n := int(in[6]) * entrySize; n > 0 {
		side = buffer[:min(n, len(buffer))]
	}
	var err error
	switch {
	case !ok:
		c.name = fmt.Sprintf("RCFW command %#x", in[0])
		err = refuse(channelUnknown, "there is no such command")
	case !d.ready && !beforeReady[in[0]]:
		err = refuse(channelFail, "the firmware is not initialized")
	default:
		err = c.run(d, in, &answer, side)
	}
	d.trace("RCFW %s %x = %x, %v", c.name, in[entrySize:0x90], answer[:], err)
	answer[0], answer[9] = channelEvent, in[0]
	copy(answer[2:4], in[4:6])
	if err != nil {
		d.violation(c.name, "%v", err)
		answer[1] = byte(channelFail)
		if r := (*refusal)(nil); errors.As(err, &r) {
			answer[1] = byte(r.status)
		}
	} else if side != nil {
		side[0], side[6] = in[0], in[6]
		copy(side[2:4], in[4:6])
		b := d.mem.Bytes(le.Uint64(in[8:]), len(side))
		if b == nil {
			d.violation(c.name, "an answer of %d bytes to %#x", len(side), le.Uint64(in[8:]))
			answer[1] = byte(channelInvalid)
		} else {
			copy(b, side)
		}
	}
	d.answers.notify(answer)
}

// invalid returns the error for a wrong parameter of a command.
func invalid(format string, args ...any) error {
	return refuse(channelInvalid, format, args...)
}

// pages returns the pages of a queue of size bytes. code is the code of the size of a page.
// Without levels of tables the queue starts at the address.
func (d *Device) pages(addr uint64, levels int, code uint8, size uint64) (p pci.Pages, err error) {
	shifts := [...]uint{12, 13, 16, 21, 23, 30}
	if levels > 2 || int(code) >= len(shifts) {
		return p, invalid("tables of %d levels for pages with code %d", levels, code)
	}
	if levels == 0 {
		if d.mem.Bytes(addr, int(size)) == nil {
			return p, invalid("the host has no memory for %d bytes at %#x", size, addr)
		}
		return pci.Pages{Entries: []uint64{addr}, Shift: 31}, nil
	}
	p = pci.Pages{Table: addr &^ pageFlags, Levels: levels, LogNode: 12, Shift: shifts[code], Flags: pageFlags}
	p.N = (size + 1<<p.Shift - 1) >> p.Shift
	if err := p.Check(size, maxQueuePages); err != nil {
		return p, invalid("%v", err)
	}
	return p, nil
}

// maxQueuePages bounds the pages of a queue of RDMA.
const maxQueuePages = 1 << 16
