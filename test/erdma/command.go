// SPDX-License-Identifier: Apache-2.0

package erdma

import "fmt"

// opcode is the opcode of a command, with the module that it belongs to.
type opcode struct{ module, code uint8 }

// answer contains the two words of a command's answer.
type answer [2]uint64

// command is a command of the driver. in has the maximum size of a command, and zeros after its
// end.
type command struct {
	name string
	run  func(d *Device, in []byte) (answer, error)
}

var commands = map[opcode]command{
	{0, 0}: {"QUERY_DEVICE", queryDevice},
	{0, 1}: {"CREATE_QP", createQP},
	{0, 2}: {"DESTROY_QP", destroyQP},
	{0, 3}: {"MODIFY_QP", modifyQP},
	{0, 4}: {"CREATE_CQ", createCQ},
	{0, 5}: {"DESTROY_CQ", destroyCQ},
	{0, 6}: {"REFLUSH", reflush},
	{0, 8}: {"REG_MR", regMR},
	{0, 9}: {"DEREG_MR", deregMR},

	{1, 0}: {"CREATE_EQ", createEQ},
	{1, 1}: {"DESTROY_EQ", destroyEQ},
	{1, 2}: {"QUERY_FW_INFO", func(*Device, []byte) (answer, error) { return answer{firmwareVersion}, nil }},
	{1, 3}: {"CONF_MTU", func(*Device, []byte) (answer, error) { return answer{}, nil }},
	{1, 4}: {"GET_STATS", getStats},
	{1, 5}: {"CONF_DEVICE", confDevice},
	{1, 8}: {"ALLOC_DB", allocDB},
	{1, 9}: {"FREE_DB", freeDB},
}

// execute executes a command.
func (d *Device) execute(op opcode, in []byte) (answer, error) {
	c, ok := commands[op]
	if !ok {
		d.violation("command queue", "a command with opcode %d of module %d", op.code, op.module)
		return answer{}, fmt.Errorf("no such command")
	}
	out, err := c.run(d, in)
	d.trace("%s %x = %x, %v", c.name, in[8:], out, err)
	if err != nil {
		d.violation(c.name, "%v", err)
	}
	return out, err
}

// Flags of the device's capabilities.
const (
	capExtendedDoorbells = 1 << 3
	capScatteredPages    = 1 << 5 // page lists of two and three levels
	capAtomic            = 1 << 7
)

func queryDevice(*Device, []byte) (answer, error) {
	const flags = capExtendedDoorbells | capScatteredPages | capAtomic
	return answer{
		logMaxCQE<<40 | flags<<24 | logMaxRecv<<16 | logMaxMR,
		localKey<<32 | queueBlocks<<16,
	}, nil
}

// confDevice accepts pages of doorbells of 4 KiB and the host's own size.
func confDevice(_ *Device, in []byte) (answer, error) {
	if shift := bits(uint64(le.Uint32(in[8:])), 4, 0); shift != 12 {
		return answer{}, fmt.Errorf("pages of 2^%d bytes are not supported", shift)
	}
	return answer{}, nil
}

// getStats writes counters, all zero.
func getStats(d *Device, in []byte) (answer, error) {
	const size = 16 + 11*8
	addr, n := le.Uint64(in[16:]), le.Uint32(in[24:])
	b := d.mem.Bytes(addr, int(n))
	if b == nil || n < size {
		return answer{}, fmt.Errorf("%d bytes of memory at %#x, want %d", n, addr, size)
	}
	clear(b)
	le.PutUint16(b, 0x5566)
	b[3] = size
	return answer{}, nil
}

func createEQ(d *Device, in []byte) (answer, error) {
	vector, n, depth := int(in[16]), uint32(in[17]), uint64(in[18])
	switch {
	case n == 0 || n >= maxEQ || vector >= vectors:
		return answer{}, fmt.Errorf("EQ %d with vector %d", n, vector)
	case d.eqs[n] != nil:
		return answer{}, fmt.Errorf("EQ %d exists", n)
	case depth > logMaxEQ:
		return answer{}, fmt.Errorf("EQ of 2^%d entries", depth)
	}
	q, err := newEQ(d, le.Uint64(in[8:]), 1<<depth, vector)
	if err == nil {
		d.eqs[n] = q
	}
	return answer{}, err
}

func destroyEQ(d *Device, in []byte) (answer, error) {
	n := uint32(in[17])
	switch q := d.eqs[n]; {
	case q == nil:
		return answer{}, fmt.Errorf("there is no EQ %d", n)
	case q.users > 0:
		return answer{}, fmt.Errorf("EQ %d has %d CQs", n, q.users)
	}
	delete(d.eqs, n)
	return answer{}, nil
}
