// SPDX-License-Identifier: Apache-2.0

package pci

import "encoding/binary"

// ConfigSize is the size of a configuration space in bytes.
const ConfigSize = 4096

// Identity describes a function to its driver.
type Identity struct {
	Vendor, Device, Subsystem uint16
	// Class contains the class, the subclass and the interface, of 8 bits each.
	Class uint32
	// BARs contains the sizes of the BARs, which are powers of two. A BAR has 64 bits and
	// occupies its own index, which is even, and the next one. Size 0 is a missing BAR.
	BARs [6]uint64
	// AtomicOps reports whether AtomicOps are enabled after a reset. The machine's firmware may enable them if all bridges
	// route them. Linux itself cannot find that here, because the bridges are QEMU's.
	AtomicOps bool
	// Prefetchable reports whether the BARs are prefetchable memory.
	Prefetchable bool
	// Vectors is the number of MSI-X vectors. Their table and their pending bits are in the BAR
	// with index VectorBAR, at these offsets. The implementation of the bus provides both.
	Vectors            int
	VectorBAR          int
	VectorTable        uint32
	VectorPendingArray uint32
}

// ClassEthernet is the class of an Ethernet controller.
const ClassEthernet = 0x02_00_00

// Offsets of the capabilities, which form a list in this order.
const (
	capPCIe = 0x60
	capMSIX = 0x9c
	capPM   = 0x40
)

// atomicRequester is the bit of the device control 2 that enables requests of AtomicOps.
const atomicRequester = 1 << 6

// A ConfigSpace is the configuration space of a function. Its methods must not be called
// concurrently.
type ConfigSpace struct {
	b        [ConfigSize]byte
	writable []register
}

// A register is a register of the configuration space with its writable bits.
type register struct {
	off  int
	mask uint32
}

// NewConfigSpace returns a configuration space after a reset.
func NewConfigSpace(id Identity) *ConfigSpace {
	c := &ConfigSpace{writable: []register{
		{0x04, 0x0547},                // command: decoding, bus master, parity, SERR, no INTx
		{0x0c, 0xff},                  // cache line
		{0x3c, 0xff},                  // interrupt line
		{capPCIe + 0x08, 0x7fff},      // device control
		{capPCIe + 0x10, 0x01fb},      // link control
		{capPCIe + 0x28, 0xffff},      // device control 2
		{capPCIe + 0x30, 0xffff},      // link control 2
		{capMSIX + 0x00, 0xc000_0000}, // MSI-X: enable, mask
		{capPM + 0x04, 0x0103},        // power state
	}}
	put16 := func(off int, v uint16) { binary.LittleEndian.PutUint16(c.b[off:], v) }
	put32 := func(off int, v uint32) { binary.LittleEndian.PutUint32(c.b[off:], v) }
	put16(0x00, id.Vendor)
	put16(0x02, id.Device)
	put16(0x06, 0x0010) // status, has a list of capabilities
	put32(0x08, id.Class<<8)
	for i, size := range id.BARs {
		if size == 0 {
			continue
		}
		bar := uint32(0x4) // memory, 64 bits
		if id.Prefetchable {
			bar |= 0x8
		}
		put32(0x10+4*i, bar)
		c.writable = append(c.writable, register{0x10 + 4*i, uint32(-size)}, register{0x14 + 4*i, uint32(-size >> 32)})
	}
	put16(0x2c, id.Vendor)
	put16(0x2e, id.Subsystem)
	c.b[0x34] = capPCIe

	c.b[capPCIe], c.b[capPCIe+1] = 0x10, capMSIX
	put16(capPCIe+0x02, 0x0002)        // version 2, an endpoint
	put32(capPCIe+0x04, 1<<28|1<<15|2) // function-level reset, role-based errors, 512 bytes of payload
	put16(capPCIe+0x08, 0x2810)
	put32(capPCIe+0x0c, 0x0103) // link: x16, 8 GT/s
	put16(capPCIe+0x12, 0x1103)
	if id.AtomicOps {
		put16(capPCIe+0x28, atomicRequester)
	}
	put32(capPCIe+0x2c, 0x0e)

	c.b[capMSIX], c.b[capMSIX+1] = 0x11, capPM
	put16(capMSIX+0x02, uint16(id.Vectors-1))
	put32(capMSIX+0x04, id.VectorTable|uint32(id.VectorBAR))
	put32(capMSIX+0x08, id.VectorPendingArray|uint32(id.VectorBAR))

	c.b[capPM] = 0x01
	put16(capPM+0x02, 3)
	return c
}

// Read copies registers from an offset on to p. Offsets after the end read as zeros.
func (c *ConfigSpace) Read(off uint64, p []byte) {
	clear(p)
	if off < ConfigSize {
		copy(p, c.b[off:])
	}
}

// Write writes the writable bits of the registers from an offset on.
func (c *ConfigSpace) Write(off uint64, p []byte) {
	if off >= ConfigSize {
		return
	}
	for _, w := range c.writable {
		var mask [4]byte
		binary.LittleEndian.PutUint32(mask[:], w.mask)
		for i, m := range mask {
			if at := w.off + i - int(off); at >= 0 && at < len(p) {
				b := &c.b[w.off+i]
				*b = *b&^m | p[at]&m
			}
		}
	}
}
