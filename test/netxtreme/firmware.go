// SPDX-License-Identifier: Apache-2.0

package netxtreme

// firmware is the state of the function that the drivers have configured.
type firmware struct {
	registered bool // whether bnxt_en is loaded
	reserved   reservation
	asyncRing  uint16 // notification queue of asynchronous events
	window     uint32 // address of the window of the FIFO's register
}

// reservation contains the numbers of objects that the driver has reserved, in the order of
// FUNC_CFG.
type reservation struct {
	vectors, hashContexts, completionRings, txRings, rxRings, filters, vnics, statistics uint16
}

// limits contains the numbers of objects of the function. bnxt_en takes two receive rings for
// frames that need several buffers.
var limits = reservation{
	vectors: vectors, hashContexts: 16, completionRings: 128, txRings: 32, rxRings: 64, filters: 128, vnics: 16, statistics: 64,
}

// Version of the interface of the firmware, 1.10.3.
const (
	interfaceMajor = 1
	interfaceMinor = 10
	interfacePatch = 3
)

// Numbers and sizes of contexts of objects. The driver allocates memory for them, which a card
// uses for its own state. The model does not use it.
const (
	contextSize = 64
	maxL2QP     = 128
	maxQP       = 16 << 10
	maxSRQ      = 8 << 10
	maxCQ       = 2 * maxQP
	maxMR       = 64 << 10 // half of them are address handles
	maxVNIC     = 16
)

// hwrmCommands contains the commands by number. The drivers send commands without a function to
// find out whether the firmware has them.

var hwrmCommands = map[uint16]hwrmCommand{
	0x00:   {"VER_GET", 0xb0, verGet},
	0x0c:   {"ERROR_RECOVERY_QCFG", 0xd0, nil},
	0x11:   {"FUNC_RESET", 16, funcReset},
	0x15:   {"FUNC_QCAPS", 0x90, funcQcaps},
	0x16:   {"FUNC_QCFG", 0xb0, funcQcfg},
	0x17:   {"FUNC_CFG", 16, funcCfg},
	0x1a:   {"FUNC_DRV_UNRGTR", 16, funcUnregister},
	0x1d:   {"FUNC_DRV_RGTR", 16, funcRegister},
	0x20:   {"PORT_PHY_CFG", 16, accept},
	0x23:   {"PORT_QSTATS", 16, portQstats},
	0x27:   {"PORT_PHY_QCFG", 0x70, portPhyQcfg},
	0x2a:   {"PORT_PHY_QCAPS", 0x30, portPhyQcaps},
	0x2f:   {"PORT_LED_QCAPS", 0x30, accept},
	0x30:   {"QUEUE_QPORTCFG", 0xa8, queueQportcfg},
	0x3b:   {"QUEUE_DSCP_QCAPS", 16, nil},
	0x40:   {"VNIC_ALLOC", 16, vnicAlloc},
	0x41:   {"VNIC_FREE", 16, vnicFree},
	0x42:   {"VNIC_CFG", 16, vnicCfg},
	0x46:   {"VNIC_RSS_CFG", 16, vnicRSSCfg},
	0x47:   {"VNIC_RSS_QCFG", 0x40, nil},
	0x48:   {"VNIC_PLCMODES_CFG", 16, vnicPlacement},
	0x4a:   {"VNIC_QCAPS", 0x18, vnicQcaps},
	0x50:   {"RING_ALLOC", 16, ringAlloc},
	0x51:   {"RING_FREE", 16, ringFree},
	0x53:   {"RING_CMPL_RING_CFG_AGGINT_PARAMS", 16, accept}, // the model does not delay interrupts
	0x54:   {"RING_AGGINT_QCAPS", 0x30, nil},
	0x70:   {"VNIC_RSS_COS_LB_CTX_ALLOC", 16, hashContextAlloc},
	0x71:   {"VNIC_RSS_COS_LB_CTX_FREE", 16, hashContextFree},
	0x90:   {"CFA_L2_FILTER_ALLOC", 0x18, filterAlloc},
	0x91:   {"CFA_L2_FILTER_FREE", 16, filterFree},
	0x93:   {"CFA_L2_SET_RX_MASK", 16, setRxMask},
	0xb0:   {"STAT_CTX_ALLOC", 16, statCtxAlloc},
	0xb1:   {"STAT_CTX_FREE", 16, statCtxFree},
	0xb4:   {"PORT_QSTATS_EXT", 16, accept},
	0xc8:   {"FW_SET_TIME", 16, accept},
	0xdf:   {"PORT_MAC_QCAPS", 16, nil},
	0xe0:   {"TEMP_MONITOR_QUERY", 0x18, nil},
	0xf2:   {"WOL_FILTER_QCFG", 0x20, nil},
	0x124:  {"CFA_ADV_FLOW_MGNT_QCAPS", 16, nil},
	0x190:  {"FUNC_RESOURCE_QCAPS", 0x58, funcResourceQcaps},
	0x192:  {"FUNC_BACKING_STORE_QCAPS", 0x68, backingStoreQcaps},
	0x193:  {"FUNC_BACKING_STORE_CFG", 16, backingStoreCfg},
	0x1a6:  {"FUNC_DBR_PACING_QCFG", 0x40, pacingQcfg},
	0x200:  {"SELFTEST_QLIST", 0x118, nil},
	0x204:  {"PCIE_QSTATS", 16, nil},
	0x261:  {"QUEUE_PFCWD_TIMEOUT_QCAPS", 16, nil},
	0xfff6: {"NVM_GET_DEV_INFO", 0x60, accept},
	0xfff1: {"NVM_GET_VARIABLE", 16, nil},
	0xfff9: {"NVM_FIND_DIR_ENTRY", 0x30, nil},
}

// accept accepts a command without an effect on the model.
func accept(*Device, []byte, []byte) error { return nil }

func verGet(d *Device, _, out []byte) error {
	out[8], out[9], out[10] = interfaceMajor, interfaceMinor, interfacePatch
	out[0xc], out[0xd] = 224, 1
	const shortSupported, shortRequired = 0x4, 0x8
	le.PutUint32(out[0x18:], shortSupported|shortRequired)
	out[0x1c], out[0x1d] = 224, 1
	copy(out[0x50:0x60], "224.1.0.0")
	le.PutUint16(out[0x70:], d.fabric.chip)
	out[0x72] = 1 // B0
	le.PutUint16(out[0x76:], requestWindow)
	le.PutUint16(out[0x78:], maxAnswer)
	le.PutUint16(out[0x7a:], 10_000) // milliseconds of a command
	le.PutUint16(out[0x80:], interfaceMajor)
	le.PutUint16(out[0x82:], interfaceMinor)
	le.PutUint16(out[0x84:], interfacePatch)
	le.PutUint16(out[0x88:], 224)
	le.PutUint16(out[0x8a:], 1)
	le.PutUint16(out[0xa0:], 224)
	le.PutUint16(out[0xa2:], 1)
	le.PutUint16(out[0xa8:], maxRequest)
	return nil
}

func funcReset(d *Device, _, _ []byte) error {
	d.reset()
	return nil
}

func funcQcaps(d *Device, in, out []byte) error {
	if fid := le.Uint16(in[16:]); fid != 0xffff && fid != functionID {
		return refuse(hwrmInvalid, "there is no function %#x", fid)
	}
	const rocev2, push = 0x10, 0x10_0000
	le.PutUint16(out[0x8:], functionID)
	le.PutUint32(out[0xc:], rocev2|push)
	const pacing = 0x8
	le.PutUint32(out[0x58:], pacing)
	copy(out[0x10:], d.mac[:])
	for off, n := range map[int]uint16{
		0x16: limits.hashContexts, 0x18: limits.completionRings, 0x1a: limits.txRings, 0x1c: limits.rxRings,
		0x1e: limits.filters, 0x20: limits.vnics, 0x26: limits.statistics,
	} {
		le.PutUint16(out[off:], n)
	}
	le.PutUint32(out[0x40:], maxMulticast)
	le.PutUint32(out[0x48:], uint32(limits.rxRings)) // groups of rings
	copy(out[0x60:], d.mac[:])
	return nil
}

// functionID is the function's number in commands.
const functionID = 1

func funcQcfg(d *Device, _, out []byte) error {
	r := &d.reserved
	le.PutUint16(out[0x8:], functionID)
	copy(out[0x10:], d.mac[:])
	for off, n := range map[int]uint16{
		0x18: r.hashContexts, 0x1a: r.completionRings, 0x1c: r.txRings, 0x1e: r.rxRings, 0x20: r.filters, 0x22: r.vnics,
		0x24: maxMTU, 0x26: maxMTU + frameOverhead, 0x2e: maxMTU, 0x46: r.statistics, 0x48: r.vectors,
	} {
		le.PutUint16(out[off:], n)
	}
	out[0x2b] = 1 // functions of the port
	le.PutUint32(out[0x40:], uint32(r.rxRings))
	le.PutUint16(out[0x4c:], ethernetSize>>10)
	le.PutUint16(out[0x54:], doorbellStart>>10)
	return nil
}

// funcCfg reserves objects, or tests whether they could be reserved.
func funcCfg(d *Device, in, _ []byte) error {
	enables, flags := le.Uint32(in[0x18:]), le.Uint32(in[0x14:])
	r := d.reserved
	for _, f := range []struct {
		enable uint32
		off    int
		field  *uint16
		limit  uint16
	}{
		{0x4, 0x20, &r.hashContexts, limits.hashContexts},
		{0x8, 0x22, &r.completionRings, limits.completionRings},
		{0x10, 0x24, &r.txRings, limits.txRings},
		{0x20, 0x26, &r.rxRings, limits.rxRings},
		{0x40, 0x28, &r.filters, limits.filters},
		{0x80, 0x2a, &r.vnics, limits.vnics},
		{0x100, 0x2c, &r.statistics, limits.statistics},
		{0x200000, 0x12, &r.vectors, limits.vectors},
	} {
		if enables&f.enable == 0 {
			continue
		}
		if *f.field = le.Uint16(in[f.off:]); *f.field > f.limit {
			return refuse(hwrmNoResource, "%d objects at offset %#x, want at most %d", *f.field, f.off, f.limit)
		}
	}
	const assetsTest = 0x9f_e000
	if flags&assetsTest != 0 {
		return nil
	}
	d.reserved = r
	if enables&0x4000 != 0 {
		d.asyncRing = le.Uint16(in[0x50:])
		if d.nqs[d.asyncRing] == nil {
			return refuse(hwrmInvalid, "there is no notification queue %d", d.asyncRing)
		}
	}
	return nil
}

func funcRegister(d *Device, _, _ []byte) error {
	d.registered = true
	return nil
}

func funcUnregister(d *Device, _, _ []byte) error {
	d.registered = false
	return nil
}

func funcResourceQcaps(_ *Device, _, out []byte) error {
	le.PutUint16(out[0xa:], limits.vectors)
	for i, n := range []uint16{
		limits.hashContexts, limits.completionRings, limits.txRings, limits.rxRings, limits.filters, limits.vnics,
		limits.statistics, limits.rxRings,
	} {
		le.PutUint16(out[0xe+4*i:], 1)
		le.PutUint16(out[0x10+4*i:], n)
	}
	le.PutUint16(out[0x2e:], limits.txRings)
	return nil
}

func backingStoreQcaps(_ *Device, _, out []byte) error {
	put16 := func(off int, v uint16) { le.PutUint16(out[off:], v) }
	put32 := func(off int, v uint32) { le.PutUint32(out[off:], v) }
	put32(0x08, maxQP)
	put16(0x0c, 1) // QP 1
	put16(0x0e, maxL2QP)
	put16(0x10, contextSize)
	put16(0x12, 1)
	put32(0x14, maxSRQ)
	put16(0x18, contextSize)
	put16(0x1a, limits.completionRings)
	put32(0x1c, maxCQ)
	put16(0x20, contextSize)
	put16(0x22, maxVNIC)
	put16(0x24, maxVNIC)
	put16(0x26, contextSize)
	put32(0x28, uint32(limits.statistics))
	put16(0x2c, contextSize)
	put16(0x2e, contextSize)
	put32(0x30, 64)
	put32(0x34, 4*maxQP)
	put32(0x38, maxMR)
	put16(0x3c, contextSize)
	put16(0x3e, contextSize)
	put32(0x40, 2*maxQP)
	out[0x46] = 32 // multiple of the entries of a ring
	out[0x4e] = 1  // rings
	return nil
}

// backingStoreCfg takes the memory for contexts.
func backingStoreCfg(d *Device, in, _ []byte) error {
	for off, limit := range map[int]uint32{0xa8: maxQP, 0xac: maxSRQ, 0xb0: maxCQ} {
		if n := le.Uint32(in[off:]); n > limit {
			return refuse(hwrmInvalid, "%d contexts at offset %#x, want at most %d", n, off, limit)
		}
	}
	for i := range 16 {
		addr := le.Uint64(in[0x28+8*i:])
		if addr != 0 && d.mem.Bytes(addr, 8) == nil {
			return refuse(hwrmInvalid, "the host has no memory for a table at %#x", addr)
		}
	}
	return nil
}
