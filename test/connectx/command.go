// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
)

// MaxCommand is the maximum size of a command or its answer, in bytes.
const MaxCommand = 16 << 20

// command is a command of the firmware.
type command struct {
	name    string
	in, out int // minimum sizes in bytes
	// run executes it. in and out have the driver's lengths, which are at least the minimum
	// sizes. out is zero.
	run func(d *Device, in, out []byte) error
}

// commands contains all commands by opcode. Each kind of object defines its own table next to
// its implementation.
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

// CommandName returns the name of an opcode, or a number for an unknown opcode.
func CommandName(opcode uint16) string {
	if c, ok := commands[opcode]; ok {
		return c.name
	}
	return fmt.Sprintf("opcode %#x", opcode)
}

// Exec executes one firmware command. in is the whole command, from the command queue's entry
// and its mailboxes. outLen is the driver's length of the answer. The answer has that many
// bytes, or 16 if outLen is less than 16 or too large. Its header contains the command's
// status.
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
	d.fabric.flushHeld() // before their queues change or are destroyed
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
