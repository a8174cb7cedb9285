// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

import "encoding/binary"

// Commands, as a header has them. Those of the server's to the client, and
// those of migration, are not spoken.
const (
	cmdVersion       = 1
	cmdDMAMap        = 2
	cmdDMAUnmap      = 3
	cmdGetInfo       = 4
	cmdGetRegionInfo = 5
	cmdGetIRQInfo    = 7
	cmdSetIRQs       = 8
	cmdRegionRead    = 9
	cmdRegionWrite   = 10
	cmdReset         = 13
)

// Bits of a header's flags.
const (
	flagTypeMask = 0xf
	flagReply    = 1 << 0
	flagNoReply  = 1 << 4
	flagError    = 1 << 5
)

// Sizes in bytes.
const (
	headerSize = 16
	// maxTransfer is the most that one access reads or writes.
	maxTransfer = 64 << 10
	// maxMessage bounds what is received: an access, its head and the header.
	maxMessage = headerSize + 16 + maxTransfer
	// maxFDs is how many file descriptors a message brings at most.
	maxFDs = 8
)

// A header begins every message. Numbers are in the byte order of the machine,
// which all machines with QEMU's vfio-user have little-endian.
type header struct {
	id, command       uint16
	size, flags, errn uint32
}

var le = binary.LittleEndian

func (h *header) decode(b []byte) {
	h.id, h.command = le.Uint16(b), le.Uint16(b[2:])
	h.size, h.flags, h.errn = le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])
}

func (h header) encode(b []byte) {
	le.PutUint16(b, h.id)
	le.PutUint16(b[2:], h.command)
	le.PutUint32(b[4:], h.size)
	le.PutUint32(b[8:], h.flags)
	le.PutUint32(b[12:], h.errn)
}

// commandNames are for errors.
var commandNames = map[uint16]string{
	cmdVersion: "VERSION", cmdDMAMap: "DMA_MAP", cmdDMAUnmap: "DMA_UNMAP", cmdGetInfo: "DEVICE_GET_INFO",
	cmdGetRegionInfo: "DEVICE_GET_REGION_INFO", cmdGetIRQInfo: "DEVICE_GET_IRQ_INFO", cmdSetIRQs: "DEVICE_SET_IRQS",
	cmdRegionRead: "REGION_READ", cmdRegionWrite: "REGION_WRITE", cmdReset: "DEVICE_RESET",
}
