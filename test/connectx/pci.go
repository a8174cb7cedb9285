// SPDX-License-Identifier: Apache-2.0

package connectx

import "encoding/binary"

// Vectors is the number of MSI-X vectors of the function.
const Vectors = 16

// ConfigSize is the size of the configuration space.
const ConfigSize = 4096

// PCI identification of a ConnectX-5.
const (
	vendorID  = 0x15b3
	deviceID  = 0x1017
	subsystem = 0x0020
)

// Offsets of the capabilities, which form a list in this order.
const (
	capPCIe = 0x60
	capMSIX = 0x9c
	capPM   = 0x40
)

// Offsets of the MSI-X table and its pending bits in BAR 0. The implementation of the bus
// provides them.
const (
	msixTable   = 0x2000
	msixPending = 0x3000
)

// newConfig returns the configuration space after a reset. A driver's writes are filtered by
// writable.
func newConfig() []byte {
	c := make([]byte, ConfigSize)
	put16 := func(off int, v uint16) { binary.LittleEndian.PutUint16(c[off:], v) }
	put32 := func(off int, v uint32) { binary.LittleEndian.PutUint32(c[off:], v) }
	put16(0x00, vendorID)
	put16(0x02, deviceID)
	put16(0x06, 0x0010)        // status, has a list of capabilities
	put32(0x08, 0x02_00_00_00) // class of an Ethernet controller
	put32(0x10, 0xc)           // BAR 0, memory, 64 bits, prefetchable
	put16(0x2c, vendorID)
	put16(0x2e, subsystem)
	c[0x34] = capPCIe

	c[capPCIe], c[capPCIe+1] = 0x10, capMSIX
	put16(capPCIe+0x02, 0x0002)        // version 2, an endpoint
	put32(capPCIe+0x04, 1<<28|1<<15|2) // function-level reset, role-based errors, 512 bytes of payload
	put16(capPCIe+0x08, 0x2810)
	put32(capPCIe+0x0c, 0x0103) // link: x16, 8 GT/s
	put16(capPCIe+0x12, 0x1103)
	put32(capPCIe+0x2c, 0x0e)

	c[capMSIX], c[capMSIX+1] = 0x11, capPM
	put16(capMSIX+0x02, Vectors-1)
	put32(capMSIX+0x04, msixTable) // of BAR 0
	put32(capMSIX+0x08, msixPending)

	c[capPM] = 0x01
	put16(capPM+0x02, 3)
	return c
}

// writable lists the writable registers of the configuration space with their writable bits.
// The implementation of the bus reports the sizes of the BARs.
var writable = []struct {
	off  int
	mask uint32
}{
	{0x04, 0x0547},                // command: decoding, bus master, parity, SERR, no INTx
	{0x0c, 0xff},                  // cache line
	{0x10, 0xfe00_0000},           // BAR 0: 32 MiB
	{0x14, 0xffff_ffff},           //
	{0x3c, 0xff},                  // interrupt line
	{capPCIe + 0x08, 0x7fff},      // device control
	{capPCIe + 0x10, 0x01fb},      // link control
	{capPCIe + 0x28, 0xffff},      // device control 2
	{capPCIe + 0x30, 0xffff},      // link control 2
	{capMSIX + 0x00, 0xc000_0000}, // MSI-X: enable, mask
	{capPM + 0x04, 0x0103},        // power state
}

// writeConfig writes to the configuration space on behalf of the driver.
func writeConfig(config []byte, off int, p []byte) {
	for _, w := range writable {
		var mask [4]byte
		binary.LittleEndian.PutUint32(mask[:], w.mask)
		for i, m := range mask {
			if at := w.off + i - off; at >= 0 && at < len(p) {
				b := &config[w.off+i]
				*b = *b&^m | p[at]&m
			}
		}
	}
}
