// SPDX-License-Identifier: Apache-2.0

package msg

import "encoding/binary"

// helloLen is the length of a hello in bytes, which is in the private data of the connect request
// and of the acceptance:
//
//	offset  bytes
//	0       4      "GoMs"
//	4       1      version of the protocol
//	5       3      0
//	8       4      slot: bytes of the longest frame that the sender takes
//	12      2      window: credits of the peer, at first and at most
//	14      2      calls: the numbers of the sender's calls are less
const helloLen = 16

const (
	helloMagic   = "GoMs"
	helloVersion = 2
)

// Bounds of a hello.
const (
	minSlot   = 256
	maxSlot   = 1 << 20
	maxWindow = 1 << 12
	maxCalls  = 1 << 12
)

// hello describes the receives of one side.
type hello struct {
	slot, window, calls int
}

// mostInFlight bounds the operations in flight to a peer, with a send queue of a number of requests. Each frame
// belongs to a receive of the peer. The peer may use a receive again before its acknowledgment has arrived, so a
// receive counts twice. Some frames have no completion of their own. All other operations wait for room in the send
// queue, except the binds of windows.
func mostInFlight(peer hello, sendWR int) int {
	return 2*(peer.window+peer.calls+controlKinds) + pollEvery + sendWR
}

// encode returns the private data.
func (h hello) encode() []byte {
	b := make([]byte, helloLen)
	copy(b, helloMagic)
	b[4] = helloVersion
	binary.BigEndian.PutUint32(b[8:], uint32(h.slot))
	binary.BigEndian.PutUint16(b[12:], uint16(h.window))
	binary.BigEndian.PutUint16(b[14:], uint16(h.calls))
	return b
}

// parseHello decodes private data, which other bytes may follow.
func parseHello(b []byte) (hello, error) {
	if len(b) < helloLen || string(b[:4]) != helloMagic {
		return hello{}, violation("the private data has no hello of package msg")
	}
	if b[4] != helloVersion {
		return hello{}, violation("version %d, this side has %d", b[4], helloVersion)
	}
	slot, window, calls := binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint16(b[12:]), binary.BigEndian.Uint16(b[14:])
	switch {
	case slot < minSlot || slot > maxSlot:
		return hello{}, violation("slots of %d bytes, want %d to %d", slot, minSlot, maxSlot)
	case window < 1 || window > maxWindow:
		return hello{}, violation("%d credits, want 1 to %d", window, maxWindow)
	case calls < 1 || calls > maxCalls:
		return hello{}, violation("%d calls, want 1 to %d", calls, maxCalls)
	}
	return hello{int(slot), int(window), int(calls)}, nil
}
