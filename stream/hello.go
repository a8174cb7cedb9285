// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"encoding/binary"
)

// helloLen is the length of a hello in bytes, which is in the private data of the connect request
// and of the acceptance:
//
//	offset  bytes
//	0       4      "GoRS"
//	4       1      version of the protocol
//	5       1      features
//	6       2      0
//	8       4      slot: bytes of the longest frame that the sender takes
//	12      4      credits: frames that the sender takes at first
const helloLen = 16

const (
	helloMagic   = "GoRS"
	helloVersion = 1
)

// featureShared is set if the sender's receives are shared by connections. Its peer then returns credits
// that it does not use.
const featureShared = 1 << 0

// Bounds of a hello.
const (
	minSlot = 256
	maxSlot = 1 << 20
	// baseWindow is the smallest number of credits of a connection: two for data, and one for
	// frames without data, with which credits can always be granted.
	baseWindow = 3
	maxWindow  = 1 << 12
)

// hello describes the receives of one side.
type hello struct {
	features uint8
	slot     int
	credits  int
}

// encode returns the private data.
func (h hello) encode() []byte {
	b := make([]byte, helloLen)
	copy(b, helloMagic)
	b[4], b[5] = helloVersion, h.features
	binary.BigEndian.PutUint32(b[8:], uint32(h.slot))
	binary.BigEndian.PutUint32(b[12:], uint32(h.credits))
	return b
}

// parseHello decodes private data, which other bytes may follow. Unknown features are no error.
func parseHello(b []byte) (hello, error) {
	if len(b) < helloLen || string(b[:4]) != helloMagic {
		return hello{}, violation("the private data has no hello of package stream")
	}
	if b[4] != helloVersion {
		return hello{}, violation("version %d, this side has %d", b[4], helloVersion)
	}
	slot, credits := binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])
	switch {
	case slot < minSlot || slot > maxSlot:
		return hello{}, violation("slots of %d bytes, want %d to %d", slot, minSlot, maxSlot)
	case credits < baseWindow || credits > maxWindow:
		return hello{}, violation("%d credits, want %d to %d", credits, baseWindow, maxWindow)
	}
	return hello{features: b[5], slot: int(slot), credits: int(credits)}, nil
}
