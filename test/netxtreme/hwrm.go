// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"errors"
	"fmt"

	"purerdma/test/pci"
)

// Offsets of the common fields of HWRM requests and answers.
const (
	requestHeader = 16
	answerHeader  = 8
	maxRequest    = 1024 // bytes
	maxAnswer     = 1024
	shortRequest  = 0x4321 // signature of a description of a request in the host's memory
	noRing        = 0xffff
)

// A commandStatus is the status of a command of HWRM or RCFW, which have different numbers.
type commandStatus uint16

// Statuses of HWRM.
const (
	hwrmFail         commandStatus = 0x1
	hwrmInvalid      commandStatus = 0x2 // parameters
	hwrmNoResource   commandStatus = 0x4
	hwrmInvalidFlags commandStatus = 0x5
	hwrmNotSupported commandStatus = 0xffff // command
)

// A refusal is the reason why a command has failed.
type refusal struct {
	status commandStatus
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(s commandStatus, format string, args ...any) error {
	return &refusal{s, fmt.Sprintf(format, args...)}
}

// A hwrmCommand is a command of the firmware. in contains the request from its header on, and
// zeros after its end. out is an answer of the command's size with zeros after its header. The
// firmware lacks a command without a function.
type hwrmCommand struct {
	name   string
	answer int // bytes
	run    func(d *Device, in, out []byte) error
}

// executeRequest executes the request in the window.
func (d *Device) executeRequest() {
	var in [maxRequest]byte
	copy(in[:], d.request[:])
	if le.Uint16(in[2:]) == shortRequest {
		n, addr := int(le.Uint16(in[6:])), le.Uint64(in[8:])
		b := d.mem.Bytes(addr, n)
		if b == nil || n < requestHeader || n > maxRequest {
			d.violation("HWRM", "a request of %d bytes at %#x", n, addr)
			return
		}
		clear(in[:])
		copy(in[:], b)
	}
	code := le.Uint16(in[:])
	c, known := hwrmCommands[code]
	if !known {
		c.name, c.answer = fmt.Sprintf("command %#x", code), 16
	}
	var out [maxAnswer]byte
	var err error
	ring := d.completions[le.Uint16(in[2:])]
	switch {
	case ring == nil && le.Uint16(in[2:]) != noRing:
		err = refuse(hwrmInvalid, "there is no completion ring %d", le.Uint16(in[2:]))
	case !known:
		err = refuse(hwrmNotSupported, "there is no such command")
	case c.run == nil:
		d.trace("HWRM %s is not supported", c.name)
		d.answer(in[:], out[:c.answer], hwrmNotSupported)
		return
	default:
		err = c.run(d, in[:], out[:c.answer])
	}
	d.trace("HWRM %s %x = %x, %v", c.name, in[requestHeader:128], out[answerHeader:c.answer], err)
	var status commandStatus
	if err != nil {
		d.violation(c.name, "%v", err)
		clear(out[:])
		status = hwrmFail
		if r := (*refusal)(nil); errors.As(err, &r) {
			status = r.status
		}
	}
	d.answer(in[:], out[:c.answer], status)
	if ring != nil && d.completions[le.Uint16(in[2:])] == ring {
		// The driver also waits for a completion, which follows the other completions of the ring.
		const done = 0x20
		var e [entrySize]byte
		e[0] = done
		copy(e[2:4], in[4:6])
		ring.complete(e)
	}
}

// answer writes an answer to the host's memory. The driver polls the length in the header.
func (d *Device) answer(in, out []byte, status commandStatus) {
	b := d.mem.Bytes(le.Uint64(in[8:]), len(out))
	if b == nil || !pci.Aligned(b) {
		d.violation("HWRM", "an answer of %d bytes to %#x", len(out), le.Uint64(in[8:]))
		return
	}
	out[len(out)-1] = 1 // valid
	copy(b[answerHeader:], out[answerHeader:])
	le.PutUint16(b, uint16(status))
	copy(b[2:4], in[:2])
	var w [4]byte
	copy(w[:], in[4:6])
	le.PutUint16(w[2:], uint16(len(out)))
	pci.StoreWord(b[4:], w)
}
