// SPDX-License-Identifier: Apache-2.0

package netxtreme

import "purerdma/test/pci"

// rdma contains the objects of RCFW.
type rdma struct {
	cqs  map[uint32]*cq
	qps  map[uint32]*qp
	srqs map[uint32]*srq
	mrs  map[uint32]*mr // by index, which is the key without its last byte
	ahs  map[uint32]*ah
	gids map[uint32]*gid
	next map[string]uint32 // last numbers of objects by kind

	pushes map[pushKey]*push // open ones

	errors  [roceStatisticsSize]byte // answer of QUERY_ROCE_STATS
	traffic *statistics              // of messages
}

// Limits that QUERY_FUNC reports. They bound the memory that a driver can make the model use.
const (
	maxRequests  = 8 << 10 // of a queue
	maxSendSlots = 64 << 10
	logMaxMR     = 39 // bytes of a memory region
	maxKeys      = maxMR / 2
	maxAH        = 32 << 10
	maxGID       = 128
	maxSGE       = 6
	maxInline    = 16 * maxSGE
	// A request of a variable size has more SGEs.
	maxVariableSGE = 13
	maxCQE         = 1<<20 - 1
	maxReads       = 126
	maxSRQWR       = 16 << 10
	maxMessage     = 1 << 31
	gsiQP          = 1
	firstQP        = 0x80
	reservedLKey   = 0xffff_ffff // key of all memory, for the host's kernel
)

// resetRDMA removes all objects.
func (d *Device) resetRDMA() {
	for _, q := range d.qps {
		q.stop()
	}
	d.rdma = rdma{
		cqs: make(map[uint32]*cq), qps: make(map[uint32]*qp), srqs: make(map[uint32]*srq), mrs: make(map[uint32]*mr),
		ahs: make(map[uint32]*ah), gids: make(map[uint32]*gid), next: make(map[string]uint32),
		pushes: make(map[pushKey]*push),
	}
}

// number returns an unused number of a kind, from first on and at most n of them. It returns false
// if all are used.
func number[T any](d *Device, objects map[uint32]T, kind string, first, n uint32) (uint32, bool) {
	if uint32(len(objects)) >= n {
		return 0, false
	}
	for {
		i := d.next[kind]
		d.next[kind] = (i + 1) % n
		if _, used := objects[first+i]; !used {
			return first + i, true
		}
	}
}

var rcfwCommands = map[uint8]rcfwCommand{
	0x01: {"CREATE_QP", createQP},
	0x02: {"DESTROY_QP", destroyQP},
	0x03: {"MODIFY_QP", modifyQP},
	0x04: {"QUERY_QP", queryQP},
	0x05: {"CREATE_SRQ", createSRQ},
	0x06: {"DESTROY_SRQ", destroySRQ},
	0x08: {"QUERY_SRQ", querySRQ},
	0x09: {"CREATE_CQ", createCQ},
	0x0a: {"DESTROY_CQ", destroyCQ},
	0x0c: {"RESIZE_CQ", resizeCQ},
	0x0d: {"ALLOCATE_MRW", allocateKey},
	0x0e: {"DEALLOCATE_KEY", deallocateKey},
	0x0f: {"REGISTER_MR", registerMR},
	0x10: {"DEREGISTER_MR", deregisterMR},
	0x11: {"ADD_GID", addGID},
	0x12: {"DELETE_GID", deleteGID},
	0x15: {"CREATE_AH", createAH},
	0x16: {"DESTROY_AH", destroyAH},
	0x17: {"MODIFY_GID", modifyGID},
	0x80: {"INITIALIZE_FW", initializeFW},
	0x81: {"DEINITIALIZE_FW", deinitializeFW},
	0x83: {"QUERY_FUNC", queryFunc},
	0x84: {"SET_FUNC_RESOURCES", acceptRDMA},
	0x8a: {"MAP_TC_TO_COS", acceptRDMA},
	0x8b: {"QUERY_VERSION", func(_ *Device, _ []byte, a *[entrySize]byte, _ []byte) error {
		a[4], a[5] = 224, 1
		a[12], a[13], a[14] = interfaceMajor, interfaceMinor, interfacePatch
		return nil
	}},
	0x8c: {"MODIFY_ROCE_CC", acceptRDMA},
	0x8d: {"QUERY_ROCE_CC", acceptRDMA},
	0x8e: {"QUERY_ROCE_STATS", queryStatistics},
}

// acceptRDMA accepts a command without an effect on the model.
func acceptRDMA(*Device, []byte, *[entrySize]byte, []byte) error { return nil }

func queryFunc(d *Device, _ []byte, _ *[entrySize]byte, side []byte) error {
	if len(side) < 0x90 {
		return invalid("%d bytes for the answer", len(side))
	}
	put32 := func(off int, v uint32) { le.PutUint32(side[off:], v) }
	le.PutUint64(side[0x8:], 1<<logMaxMR)
	put32(0x10, maxQP-1)
	le.PutUint16(side[0x14:], maxRequests+1)
	put32(0x18, maxCQ)
	put32(0x1c, maxCQE)
	put32(0x20, 64<<10) // PDs
	side[0x24], side[0x25] = maxSGE, maxSGE
	side[0x26], side[0x27] = maxReads, maxReads
	put32(0x28, maxKeys)
	put32(0x2c, maxKeys)
	put32(0x34, maxAH)
	put32(0x3c, maxSRQWR+1)
	put32(0x40, 1) // P_Keys
	put32(0x44, maxInline)
	le.PutUint16(side[0x4a:], maxSRQ)
	put32(0x4c, maxGID)
	put32(0x80, maxDPI-firstDPI)
	side[0x84] = maxVariableSGE
	le.PutUint16(side[0x86:], maxVariableSGE*slotSize)
	if d.p7() {
		const requesterRepeats, responderRepeats, messageTable = 0x200, 0x400, 0x10
		le.PutUint16(side[0x16:], requesterRepeats|responderRepeats)
		le.PutUint16(side[0x8e:], messageTable)
	}
	return nil
}

// initializeFW starts the firmware. It only supports pages of doorbells of the host's own size.
func initializeFW(d *Device, in []byte, _ *[entrySize]byte, _ []byte) error {
	if n := le.Uint16(in[0x16:]); n != 0 {
		return invalid("doorbell pages of 2^%d bytes", 12+n)
	}
	d.ready, d.traffic = true, d.statistics[le.Uint32(in[0x6c:])]
	return nil
}

func deinitializeFW(d *Device, _ []byte, _ *[entrySize]byte, _ []byte) error {
	if len(d.qps)+len(d.cqs)+len(d.srqs) > 0 {
		return invalid("there are %d QPs, %d CQs and %d SRQs", len(d.qps), len(d.cqs), len(d.srqs))
	}
	d.ready, d.traffic = false, nil
	return nil
}

// workQueue is a ring of requests or receives. Its indices count all entries.
type workQueue struct {
	buffer pci.Pages
	depth  uint32
	size   uint32 // bytes of an entry
	pi, ci uint64
}

// newWorkQueue returns a queue of at most limit entries, with extra bytes after the ring.
func (d *Device) newWorkQueue(addr uint64, levels int, code uint8, depth, size, limit uint32, extra uint64) (w workQueue, err error) {
	if depth < 2 || depth > limit {
		return w, invalid("%d entries, want 2 to %d", depth, limit)
	}
	w = workQueue{depth: depth, size: size}
	w.buffer, err = d.pages(addr, levels, code, uint64(depth)*uint64(size)+extra)
	return w, err
}

// posted returns the number of posted entries.
func (w *workQueue) posted() uint64 { return w.pi - w.ci }

// advance returns the counter for the index of a doorbell, which is after from.
func (w *workQueue) advance(from uint64, index uint32) uint64 {
	d := uint64(w.depth)
	return from + (uint64(index)+d-from%d)%d
}

// produce handles the producer index of a doorbell. A driver leaves at least one entry unused. It
// returns false for a wrong index.
func (w *workQueue) produce(index uint32) bool {
	if index >= w.depth {
		return false
	}
	pi := w.advance(w.pi, index)
	if pi-w.ci >= uint64(w.depth) {
		return false
	}
	w.pi = pi
	return true
}

// read copies the entry with an index to b, which has at least its size.
func (w *workQueue) read(mem pci.Memory, index uint64, b []byte) bool {
	off := index % uint64(w.depth) * uint64(w.size)
	for n := uint64(0); n < uint64(w.size); n += entrySize {
		p := w.buffer.At(mem, off+n, entrySize)
		if p == nil {
			return false
		}
		copy(b[n:], p)
	}
	return true
}

// roceStatisticsSize is the size in bytes of the answer of QUERY_ROCE_STATS.
const roceStatisticsSize = 0x170

// Offsets of counters of QUERY_ROCE_STATS.
const (
	countTimeouts    = 0x10
	countRetries     = 0x20 // exceeded retries
	countRNR         = 0x28
	countLocalQPOp   = 0x48
	countProtection  = 0x50
	countMemory      = 0x58
	countInvalid     = 0x60
	countAccess      = 0x68
	countOperation   = 0x70
	countPeerTooLong = 0x90
	countActiveQPs   = 0x150
)

// count adds 1 to a counter of QUERY_ROCE_STATS.
func (d *Device) count(off int) {
	le.PutUint64(d.errors[off:], le.Uint64(d.errors[off:])+1)
}

func queryStatistics(d *Device, _ []byte, _ *[entrySize]byte, side []byte) error {
	if len(side) < roceStatisticsSize {
		return invalid("%d bytes for the answer", len(side))
	}
	copy(side[0x10:], d.errors[0x10:])
	le.PutUint32(side[8:], (roceStatisticsSize-0x10)/8)
	le.PutUint64(side[countActiveQPs:], uint64(len(d.qps)))
	return nil
}
