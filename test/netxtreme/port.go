// SPDX-License-Identifier: Apache-2.0

package netxtreme

// port is the Ethernet port.
type port struct {
	down   bool // a fault, see faults
	silent bool // a fault, see faults
	// removing is a fault, see faults. The kernel destroys the queues of programs before it takes their pages of
	// doorbells away (ufile_destroy_ucontext).
	removing bool
	// waiting is the number of doorbells in the FIFO, a fault.
	waiting uint32

	sent, received frameCounters
}

// frameCounters counts the frames of Ethernet in one direction.
type frameCounters struct {
	frames [3]uint64 // unicast, multicast, broadcast
	bytes  uint64
}

func (c *frameCounters) add(frame []byte) {
	c.frames[class(frame)]++
	c.bytes += uint64(len(frame))
}

// put writes the counters to the statistics of a port. The arguments are the offsets of the
// counters of all frames, of unicast frames, of good frames, and of bytes.
func (c *frameCounters) put(b []byte, total, unicast, good, bytes int) {
	all := c.frames[0] + c.frames[1] + c.frames[2]
	le.PutUint64(b[total:], all)
	le.PutUint64(b[good:], all)
	for i, n := range c.frames {
		le.PutUint64(b[unicast+8*i:], n)
	}
	le.PutUint64(b[bytes:], c.bytes)
}

// sends reports whether messages of RDMA leave the device.
func (d *Device) sends() bool { return !d.down && !d.silent }

// Sizes of frames in bytes, without and with the headers of Ethernet and a VLAN.
const (
	maxMTU        = 9500
	frameOverhead = 18
	maxMulticast  = 64 // addresses of groups
)

// Fields of the state of the link.
const (
	linkUp    = 2
	speed100G = 0x3e8 // units of 100 Mb/s
	mask100G  = 1 << 11
)

func portPhyQcfg(d *Device, _, out []byte) error {
	if !d.down {
		out[0x8] = linkUp
		le.PutUint16(out[0xa:], speed100G)
	}
	out[0xc], out[0x36] = 1, 1 // full duplex
	le.PutUint16(out[0xe:], mask100G)
	le.PutUint16(out[0x10:], speed100G)
	out[0x12] = 4 // a mask of speeds
	le.PutUint16(out[0x16:], mask100G)
	out[0x23] = 0xf // 100GBASE-CR4
	out[0x24] = 2   // a copper cable
	out[0x25] = 1   // a transceiver in the card
	le.PutUint16(out[0x34:], 1)
	return nil
}

func portPhyQcaps(_ *Device, _, out []byte) error {
	out[0x9] = 1 // ports
	le.PutUint16(out[0xa:], mask100G)
	le.PutUint16(out[0xc:], mask100G)
	return nil
}

// Numbers and profiles of the queues of priorities.
const (
	ethernetQueue = 0
	rdmaQueue     = 4

	profileLossy    = 0
	profileLossless = 1
)

func queueQportcfg(_ *Device, _, out []byte) error {
	out[0x8], out[0x9] = 2, 1
	out[0xf], out[0x10] = ethernetQueue, profileLossy
	out[0x11], out[0x12] = rdmaQueue, profileLossless
	return nil
}

// portQstats writes the statistics of the port to the host's memory.
func portQstats(d *Device, in, out []byte) error {
	const txSize, rxSize = 0x198, 0x210
	tx, rx := d.mem.Bytes(le.Uint64(in[0x18:]), txSize), d.mem.Bytes(le.Uint64(in[0x20:]), rxSize)
	if tx == nil || rx == nil {
		return refuse(hwrmInvalid, "statistics at %#x and %#x", le.Uint64(in[0x18:]), le.Uint64(in[0x20:]))
	}
	clear(tx)
	clear(rx)
	d.sent.put(tx, 0x60, 0x68, 0x58, 0x178)
	d.received.put(rx, 0x58, 0x60, 0x110, 0x1e8)
	le.PutUint16(out[8:], txSize)
	le.PutUint16(out[10:], rxSize)
	return nil
}
