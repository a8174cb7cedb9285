// SPDX-License-Identifier: Apache-2.0

package rsocket

import "fmt"

// message is the 32-bit message that accompanies each transfer. It is the immediate data of a
// WRITE. iWARP has no immediate data. There, a SEND of 4 bytes in the byte order of the host follows
// the WRITE.
type message uint32

// op is the operation of a message, in its 3 high bits.
type op uint8

// Operations. rdma-core treats received messages with the reserved operations 1, 3 and 5 as opData.
// This package refuses 3 and 5, which no version sends.
const (
	opData     op = 0 // the argument is the number of bytes that were written
	opDataMore op = 1
	opWrite    op = 2 // not transmitted
	opSGL      op = 4 // the argument is the number of the first message without credit
	opIOMap    op = 6 // the argument is the index of a mapping that was written
	opCtrl     op = 7 // the argument is one of ctrl*
)

// Arguments of opCtrl.
const (
	ctrlDisconnect = 0 // the sender closes both directions
	ctrlKeepAlive  = 1
	ctrlShutdown   = 2 // the sender sends no more data
)

const opShift = 29

func newMessage(o op, arg uint32) message { return message(o)<<opShift | message(arg) }

func (m message) op() op      { return op(m >> opShift) }
func (m message) arg() uint32 { return uint32(m & (1<<opShift - 1)) }

func (m message) String() string {
	switch m.op() {
	case opData, opDataMore:
		return fmt.Sprintf("data of %d bytes", m.arg())
	case opSGL:
		return fmt.Sprintf("credits up to %d", uint16(m.arg()))
	case opIOMap:
		return fmt.Sprintf("mapping %d", m.arg())
	case opCtrl:
		return fmt.Sprintf("control %d", m.arg())
	}
	return fmt.Sprintf("operation %d with %d", m.op(), m.arg())
}
