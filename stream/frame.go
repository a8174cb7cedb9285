// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// frameLen is the length of the header of a frame in bytes. Each message is a frame:
//
//	offset  bytes
//	0       1      flags
//	1       3      0
//	4       4      length of the data behind the header
//	8       4      sent: the credits that the sender has used so far, including this frame
//	12      4      granted: the credits that the sender has granted to the receiver so far
//
// The numbers are big-endian. Both counts are modulo 2^32. A frame takes a credit. A sender returns
// credits by counting them as used.
const frameLen = 16

// Flags of a frame.
const (
	// flagFIN ends the stream after the data of the frame.
	flagFIN = 1 << 0
	// flagFINAck reports that the frame with flagFIN has arrived. Only iWARP needs it.
	flagFINAck = 1 << 1
)

// frame is the header of a frame.
type frame struct {
	flags         uint8
	length        int
	sent, granted uint32
}

// put encodes the header.
func (f *frame) put(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(f.flags)<<24)
	binary.BigEndian.PutUint32(b[4:], uint32(f.length))
	binary.BigEndian.PutUint32(b[8:], f.sent)
	binary.BigEndian.PutUint32(b[12:], f.granted)
}

// parseFrame decodes the header of a message.
func parseFrame(b []byte) (frame, error) {
	if len(b) < frameLen {
		return frame{}, violation("a frame of %d bytes, the header has %d", len(b), frameLen)
	}
	f := frame{
		flags:   b[0],
		sent:    binary.BigEndian.Uint32(b[8:]),
		granted: binary.BigEndian.Uint32(b[12:]),
	}
	if reserved := binary.BigEndian.Uint32(b) & 0xffffff; f.flags&^(flagFIN|flagFINAck) != 0 || reserved != 0 {
		return frame{}, violation("a frame with the unknown flags %#x", binary.BigEndian.Uint32(b))
	}
	length := binary.BigEndian.Uint32(b[4:])
	if uint64(length) != uint64(len(b)-frameLen) {
		return frame{}, violation("the length of a frame is %d, and %d bytes follow the header", length, len(b)-frameLen)
	}
	f.length = int(length)
	return f, nil
}

// violation returns an error that wraps syscall.EPROTO.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w of the peer: %s", syscall.EPROTO, fmt.Sprintf(format, args...))
}
