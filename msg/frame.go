// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"purerdma/verbs"
)

// headerLen is the length of the header of a frame in bytes. Each frame is one SEND:
//
//	offset  bytes
//	0       1      kind
//	1       1      of a request: lentRead, lentWrite. Otherwise 0
//	2       2      of a request: the parts that may come before the reply. Otherwise 0
//	4       4      length of the data behind the header
//	8       4      sent: the credits that the sender has used so far, including this frame
//	12      4      granted: the credits that the sender has granted to the receiver so far
//	16      4      call: number of the call that the frame belongs to
//	20      4      confirmed: the frames of kind kindCredit that the sender has received so far
//	24      8      tag of the program
//
// The numbers are big-endian. The counts are modulo 2^32. Behind the header of a request follow the
// encodings of its lent memory, first the memory to read, then the memory to write.
const headerLen = 32

// Flags of a request.
const (
	lentRead = 1 << iota
	lentWrite
	lentFlags
)

// kind is the kind of a frame.
type kind uint8

const (
	// kindCredit is a control frame, and grants at least one credit. A side sends one after the peer
	// has confirmed the previous one, by any frame.
	kindCredit kind = iota
	// kindMessage is a one-way message.
	kindMessage
	// kindRequest begins a call.
	kindRequest
	// kindReply ends a call.
	kindReply
	// kindFailure ends a call. Its data is the reason, in UTF-8.
	kindFailure
	// kindCancel is a control frame. The caller no longer waits for the call, which is answered
	// nevertheless. A side sends one after the answer to the previous one.
	kindCancel
	// kindCancelled is a control frame, which answers kindCancel.
	kindCancelled
	// kindPart is a reply that others of the same call follow. Parts and the reply of a call have
	// receives of their own.
	kindPart
	// kindMore is a control frame. It lets the peer send as many further parts of a call as its tag
	// states. A side sends one after the answer to the previous one.
	kindMore
	// kindMoreTaken is a control frame, which answers kindMore.
	kindMoreTaken
	kinds // the number of kinds
)

// takesCredit reports whether the frame takes a credit. The answer to a call takes none, because the
// receiver keeps a receive for it as long as the call lasts.
func (k kind) takesCredit() bool { return k == kindMessage || k == kindRequest }

// control reports whether the frame is a control frame, which has no data, and takes no credit. There is
// at most one of each kind in flight. So each kind has a receive of its own.
func (k kind) control() bool {
	switch k {
	case kindCredit, kindCancel, kindCancelled, kindMore, kindMoreTaken:
		return true
	}
	return false
}

// controlKinds is the number of kinds of control frames.
const controlKinds = 5

// hasTag reports whether the tag of the frame may differ from 0.
func (k kind) hasTag() bool { return !k.control() || k == kindMore }

// hasCall reports whether the frame belongs to a call.
func (k kind) hasCall() bool { return k != kindCredit && k != kindMessage && k != kindMoreTaken }

// frame is the header of a frame.
type frame struct {
	kind          kind
	length        int
	sent, granted uint32
	call          uint32
	confirmed     uint32
	tag           uint64

	// Only a request has the following fields. flags has the encodings of lent memory that follow the header.
	flags       uint8
	parts       int
	read, write verbs.RemoteMemory
}

// lentLen returns the number of bytes of lent memory behind the header.
func (f *frame) lentLen() (n int) {
	for flags := f.flags; flags != 0; flags &= flags - 1 {
		n += verbs.RemoteMemoryLen
	}
	return n
}

// put encodes the header.
func (f *frame) put(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(f.kind)<<24|uint32(f.flags)<<16|uint32(f.parts))
	binary.BigEndian.PutUint32(b[4:], uint32(f.length))
	binary.BigEndian.PutUint32(b[8:], f.sent)
	binary.BigEndian.PutUint32(b[12:], f.granted)
	binary.BigEndian.PutUint32(b[16:], f.call)
	binary.BigEndian.PutUint32(b[20:], f.confirmed)
	binary.BigEndian.PutUint64(b[24:], f.tag)
}

// parseFrame decodes the header of a message. It checks all that does not depend on the connection.
func parseFrame(b []byte) (frame, error) {
	if len(b) < headerLen {
		return frame{}, violation("a frame of %d bytes, the header has %d", len(b), headerLen)
	}
	f := frame{
		kind:      kind(b[0]),
		sent:      binary.BigEndian.Uint32(b[8:]),
		granted:   binary.BigEndian.Uint32(b[12:]),
		call:      binary.BigEndian.Uint32(b[16:]),
		confirmed: binary.BigEndian.Uint32(b[20:]),
		tag:       binary.BigEndian.Uint64(b[24:]),
	}
	first, length := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	switch {
	case f.kind >= kinds:
		return frame{}, violation("a frame of the unknown kind %d", f.kind)
	case first&0xffffff != 0 && f.kind != kindRequest, b[1] >= lentFlags:
		return frame{}, violation("a frame of kind %d with reserved bytes that are not 0", f.kind)
	case uint64(length) != uint64(len(b)-headerLen):
		return frame{}, violation("the length of a frame is %d, and %d bytes follow the header", length, len(b)-headerLen)
	case f.kind.control() && length > 0, !f.kind.hasTag() && f.tag != 0:
		return frame{}, violation("a frame of kind %d with data or a tag", f.kind)
	case !f.kind.hasCall() && f.call != 0:
		return frame{}, violation("a frame of kind %d with the number of a call", f.kind)
	}
	f.length, f.flags, f.parts = int(length), b[1], int(binary.BigEndian.Uint16(b[2:]))
	if f.flags != 0 {
		return f, f.parseLent(b[headerLen:])
	}
	return f, nil
}

// parseLent decodes the lent memory behind the header of a request.
func (f *frame) parseLent(b []byte) error {
	if len(b) < f.lentLen() {
		return violation("a request with lent memory has %d bytes behind the header, want %d", len(b), f.lentLen())
	}
	for _, lent := range []struct {
		flag uint8
		to   *verbs.RemoteMemory
	}{{lentRead, &f.read}, {lentWrite, &f.write}} {
		if f.flags&lent.flag == 0 {
			continue
		}
		if err := lent.to.UnmarshalBinary(b[:verbs.RemoteMemoryLen]); err != nil {
			return violation("%v", err)
		}
		if lent.to.Length == 0 {
			return violation("it lends no bytes")
		}
		b = b[verbs.RemoteMemoryLen:]
	}
	return nil
}

// violation returns an error that wraps syscall.EPROTO.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w of the peer: %s", syscall.EPROTO, fmt.Sprintf(format, args...))
}
