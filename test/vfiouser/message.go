// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

import "encoding/binary"

// Commands in a header. The server does not implement its own commands to the client, or
// migration.
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

// numRegions is VFIO_PCI_NUM_REGIONS of linux/vfio.h, including VGA's region.
const numRegions = 9

// Sizes in bytes.
const (
	headerSize = 16
	// maxTransfer is the maximum size of one access.
	maxTransfer = 64 << 10
	// maxMessage is the maximum size of a received message, which is an access with its head
	// and the header.
	maxMessage = headerSize + 16 + maxTransfer
	// maxFDs is the maximum number of file descriptors of a message.
	maxFDs = 8
)

// A header begins every message. Numbers have the byte order of the machine. All machines with
// QEMU's vfio-user are little-endian.
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

// commandNames contains the names for errors.
var commandNames = map[uint16]string{
	cmdVersion: "VERSION", cmdDMAMap: "DMA_MAP", cmdDMAUnmap: "DMA_UNMAP", cmdGetInfo: "DEVICE_GET_INFO",
	cmdGetRegionInfo: "DEVICE_GET_REGION_INFO", cmdGetIRQInfo: "DEVICE_GET_IRQ_INFO", cmdSetIRQs: "DEVICE_SET_IRQS",
	cmdRegionRead: "REGION_READ", cmdRegionWrite: "REGION_WRITE", cmdReset: "DEVICE_RESET",
}
