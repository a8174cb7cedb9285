// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"fmt"

	"purerdma/test/pci"
)

// A cmdq is the queue of the driver's commands.
type cmdq struct {
	d    *Device
	addr uint64
	mask uint16 // number of blocks, minus 1
	ci   uint16
	cq   *cq
	eq   *eq
}

// newCmdq creates the queue from the registers.
func newCmdq(d *Device) (*cmdq, error) {
	depth := uint64(le.Uint32(d.regs[regCmdDepth:]))
	if depth == 0 || depth > 1<<12 || depth&(depth-1) != 0 {
		return nil, fmt.Errorf("command queue of %d blocks", depth)
	}
	q := &cmdq{d: d, addr: d.address(regCmdSQAddrL, regCmdSQAddrH), mask: uint16(depth - 1)}
	if d.mem.Bytes(q.addr, int(depth)*blockSize) == nil {
		return nil, fmt.Errorf("the host has no memory for %d blocks of commands at %#x", depth, q.addr)
	}
	var err error
	if q.eq, err = newEQ(d, d.address(regCmdEQAddrL, regCmdEQAddrH), uint64(le.Uint32(d.regs[regCmdEQDepth:])), 0); err != nil {
		return nil, fmt.Errorf("command queue: %w", err)
	}
	entries := pci.Pages{Entries: []uint64{d.address(regCmdCQAddrL, regCmdCQAddrH)}, Shift: 32}
	q.cq = &cq{d: d, depth: uint32(depth), buffer: entries, eq: q.eq}
	return q, nil
}

// ring executes the commands up to an index.
func (q *cmdq) ring(pi uint16) {
	if pi-q.ci > q.mask+1 {
		q.d.violation("command queue", "a doorbell with index %#x, but the device is at %#x", pi, q.ci)
		return
	}
	for q.ci != pi && q.d.cmdq == q {
		if !q.next(pi) {
			return
		}
	}
}

// next executes one command. It returns false if the queue cannot continue.
func (q *cmdq) next(pi uint16) bool {
	var in [maxCommand]byte
	for i := range maxBlocks {
		b := q.d.mem.Bytes(q.addr+uint64((q.ci+uint16(i))&q.mask)*blockSize, blockSize)
		if b == nil {
			return false
		}
		copy(in[i*blockSize:], b)
	}
	hdr := le.Uint64(in[:])
	blocks := uint16(bits(hdr, 54, 52)) + 1
	if blocks > maxBlocks || pi-q.ci < blocks || uint16(bits(hdr, 15, 0)) != q.ci+blocks {
		q.d.violation("command queue", "a command with header %#x at index %#x", hdr, q.ci)
		return false
	}
	start := q.ci
	q.ci += blocks
	clear(in[int(blocks)*blockSize:])
	op := opcode{uint8(bits(hdr, 25, 24)), uint8(bits(hdr, 23, 16))}
	out, err := q.d.execute(op, in[:])
	st := statusOK
	if err != nil {
		st = statusGeneral
	}
	e := completion{opcode: op.code, status: st, index: uint32(start)}
	e.setAnswer(out)
	q.cq.post(e, false)
	return true
}
