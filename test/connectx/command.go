// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
)

// MaxCommand is the most that a command or its answer may have, in bytes.
const MaxCommand = 16 << 20

// command is one that the firmware has.
type command struct {
	name    string
	in, out int // the least that they have, in bytes
	// run carries it out. in and out are as long as the driver says, and at
	// least as long as the command has it; out is zero.
	run func(d *Device, in, out []byte) error
}

// commands are all of them, by opcode. Each kind of object has a table of its own,
// next to what it does.
var commands = merge(
	bootCommands,
	capCommands,
	registerCommands,
	vportCommands,
	counterCommands,
	interfaceCommands,
	flowCommands,
	sqCommands,
	rqCommands,
	pdCommands,
	uarCommands,
	eqCommands,
	cqCommands,
	mkeyCommands,
	xrcdCommands,
	srqCommands,
	gidCommands,
	qpCommands,
	mcgCommands,
	dctCommands,
)

func merge(tables ...map[uint16]command) map[uint16]command {
	all := make(map[uint16]command)
	for _, t := range tables {
		for op, c := range t {
			if _, twice := all[op]; twice {
				panic(fmt.Sprintf("connectx: opcode %#x is there twice", op))
			}
			all[op] = c
		}
	}
	return all
}

// CommandName returns the name of an opcode, a number for those that the device
// does not have.
func CommandName(opcode uint16) string {
	if c, ok := commands[opcode]; ok {
		return c.name
	}
	return fmt.Sprintf("opcode %#x", opcode)
}

// Exec carries out one firmware command. in is all of it, out of the command queue's
// entry and the mailboxes behind it; outLen is how long the driver says that the
// answer may be. The answer has that many bytes, or 16 if that is less than these,
// or too much. It says itself whether the command was refused.
func (d *Device) Exec(in []byte, outLen int) []byte {
	d.fabric.lock()
	defer d.fabric.unlock()
	return d.exec(in, outLen)
}

func (d *Device) exec(in []byte, outLen int) []byte {
	if outLen < prm.HeaderLen || outLen > MaxCommand {
		outLen = prm.HeaderLen
	}
	out := make([]byte, outLen)
	if d.removed {
		for i := range out {
			out[i] = 0xff
		}
		return out
	}
	d.fabric.flushHeld() // before what they are of changes, or goes
	opcode, err := d.dispatch(in, out)
	if err != nil {
		e := commandError(err)
		clear(out)
		prm.HeaderOut.Status.Set(out, uint64(e.Status))
		prm.HeaderOut.Syndrome.Set(out, uint64(e.Syndrome))
	}
	if d.cfg.Trace != nil {
		d.cfg.Trace(&CommandRecord{Device: d.cfg.Name, Opcode: opcode, In: in, Out: out, Err: err})
	}
	return out
}

func (d *Device) dispatch(in, out []byte) (opcode uint16, err error) {
	if len(in) < prm.HeaderLen || len(in) > MaxCommand {
		return 0, refuse(prm.StatusBadInputLength, "a command has at least %d bytes, not %d", prm.HeaderLen, len(in))
	}
	opcode = uint16(prm.HeaderIn.Opcode.Get(in))
	c, ok := commands[opcode]
	switch {
	case !ok:
		return opcode, refuse(prm.StatusBadOp, "there is no command %#x", opcode)
	case len(in) < c.in:
		return opcode, refuse(prm.StatusBadInputLength, "the input of %s has at least %d bytes, not %d", c.name, c.in, len(in))
	case len(out) < c.out:
		return opcode, refuse(prm.StatusBadOutputLen, "the output of %s has at least %d bytes, not %d", c.name, c.out, len(out))
	}
	if err := d.failed(opcode); err != nil {
		return opcode, err
	}
	if err := d.booted(opcode); err != nil {
		return opcode, err
	}
	return opcode, c.run(d, in, out)
}
