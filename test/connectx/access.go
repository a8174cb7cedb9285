// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
)

// right is an operation on the memory of a key.
type right struct {
	field prm.Field // field of the key's context, which must be set
	page  uint64    // bits of each page's entry, all of which must be set
	name  string
}

var (
	localRead    = right{prm.MKC.LocalRead, prm.MTTRead, "local read"}
	localWrite   = right{prm.MKC.LocalWrite, prm.MTTWrite, "local write"}
	remoteRead   = right{prm.MKC.RemoteRead, prm.MTTRead, "remote read"}
	remoteWrite  = right{prm.MKC.RemoteWrite, prm.MTTWrite, "remote write"}
	remoteAtomic = right{prm.MKC.Atomic, prm.MTTRead | prm.MTTWrite, "remote atomic"}
)

// maxIndirection is the maximum depth of keys that refer to other keys.
const maxIndirection = 4

// minLogPage is the minimum log2 of the bytes of a key's page.
const minLogPage = 12

// access is a use of a key by a queue.
type access struct {
	pd    uint32
	qpn   uint32 // keys can be bound to a QP
	right right
}

// memory appends the memory of n bytes of a key from addr on to dst, in pieces. It fails if the
// key, the domain, the right, or the bounds are wrong. It also fails if the request has used
// more pieces of memory than any valid request needs.
func (d *Device) memory(dst [][]byte, a access, key uint32, addr, n uint64) ([][]byte, error) {
	return d.walk(dst, a, key, addr, n, 0)
}

// step counts a piece of memory that a request uses.
func (d *Device) step() error {
	d.fabric.work += stepCost
	if d.steps++; d.steps > maxSteps {
		return fmt.Errorf("a request goes through more than %d pieces of memory", maxSteps)
	}
	return nil
}

func (d *Device) walk(dst [][]byte, a access, key uint32, addr, n uint64, depth int) ([][]byte, error) {
	if key == prm.DumpFillMkey && depth == 0 {
		return d.dumpFill(dst, a, n)
	}
	m := d.mkeys.objects[key>>8]
	if m == nil || m.key() != key {
		return dst, fmt.Errorf("there is no key %#x", key)
	}
	c := m.context[:]
	switch {
	case m.free():
		return dst, fmt.Errorf("key %#x is free", key)
	case depth > maxIndirection:
		return dst, fmt.Errorf("key %#x goes through more than %d keys", key, maxIndirection)
	case m.pd() != a.pd && a.pd != driverPD:
		return dst, fmt.Errorf("key %#x is of PD %#x, not %#x", key, m.pd(), a.pd)
	case !a.right.field.Is(c):
		return dst, fmt.Errorf("key %#x does not allow %s", key, a.right.name)
	}
	if q := uint32(prm.MKC.QPN.Get(c)); depth == 0 && q != prm.AnyQP && q != a.qpn {
		return dst, fmt.Errorf("key %#x is bound to QP %#x, not %#x", key, q, a.qpn)
	}
	if n == 0 {
		return dst, nil
	}
	start, length := prm.MKC.StartAddr.Get(c), prm.MKC.Length.Get(c)
	off := addr - start
	if !prm.MKC.Length64.Is(c) && (off > length || n > length-off) {
		return dst, fmt.Errorf("key %#x has %#x+%#x, not %#x+%#x", key, start, length, addr, n)
	}
	switch m.mode {
	case prm.AccessPA:
		return d.physical(dst, addr, n)
	case prm.AccessMTT:
		return d.walkPages(dst, a.right, m, addr, n)
	}
	// The host itself defines the pieces of a key.
	switch a.right {
	case remoteRead:
		a.right = localRead
	case remoteWrite, remoteAtomic:
		a.right = localWrite
	}
	return d.walkPieces(dst, a, m, off, n, depth)
}

// walkPages appends the pages of a key. Adjacent pages are one piece. It fails if a page is
// missing or does not have the right r.
func (d *Device) walkPages(dst [][]byte, r right, m *mkey, addr, n uint64) ([][]byte, error) {
	c := m.context[:]
	shift := prm.MKC.LogPageSize.Get(c)
	if shift < minLogPage {
		return dst, fmt.Errorf("key %#x has pages of 2^%d bytes", m.key(), shift)
	}
	size := uint64(1) << shift
	// The first page of the list contains the start address.
	page := addr>>shift - prm.MKC.StartAddr.Get(c)>>shift
	in := addr & (size - 1)
	var at, run uint64
	for n > 0 {
		if page >= uint64(len(m.pages)) {
			return dst, fmt.Errorf("key %#x has no page %d", m.key(), page)
		}
		if err := d.step(); err != nil {
			return dst, err
		}
		if m.pages[page]&r.page != r.page {
			return dst, fmt.Errorf("page %d of key %#x does not allow %s", page, m.key(), r.name)
		}
		next, part := m.pages[page]&^(size-1)+in, min(n, size-in)
		if run > 0 && at+run == next {
			run += part
		} else {
			var err error
			if dst, err = d.physical(dst, at, run); err != nil {
				return dst, err
			}
			at, run = next, part
		}
		n -= part
		page, in = page+1, 0
	}
	return d.physical(dst, at, run)
}

// walkPieces appends the pieces of a key from off on.
func (d *Device) walkPieces(dst [][]byte, a access, m *mkey, off, n uint64, depth int) ([][]byte, error) {
	var err error
	for _, p := range m.pieces {
		if n == 0 {
			break
		}
		if err := d.step(); err != nil {
			return dst, err
		}
		if off >= p.n {
			off -= p.n
			continue
		}
		part := min(n, p.n-off)
		if dst, err = d.walk(dst, a, p.key, p.addr+off, part, depth+1); err != nil {
			return dst, err
		}
		n -= part
		off = 0
	}
	if n > 0 {
		return dst, fmt.Errorf("key %#x lacks %d bytes", m.key(), n)
	}
	return dst, nil
}

// physical appends memory at a DMA address. It appends pages if the memory is not mapped in one
// piece.
func (d *Device) physical(dst [][]byte, addr, n uint64) ([][]byte, error) {
	if n == 0 {
		return dst, nil
	}
	if n <= maxMessage {
		if b := d.mem.Bytes(addr, int(n)); b != nil {
			return append(dst, b), nil
		}
	}
	for n > 0 {
		if err := d.step(); err != nil {
			return dst, err
		}
		part := min(n, PageSize-addr%PageSize)
		b := d.mem.Bytes(addr, int(part))
		if b == nil {
			return dst, fmt.Errorf("there is no memory of %#x bytes at %#x", part, addr)
		}
		dst = append(dst, b)
		addr, n = addr+part, n-part
	}
	return dst, nil
}

// dumpPiece is the number of bytes of prm.DumpFillMkey in one piece of memory.
const dumpPiece = 64 << 10

// dumpFillMemory is the memory of prm.DumpFillMkey.
type dumpFillMemory struct {
	dump []byte // target of writes
	fill []byte // zeros, never written
}

// dumpFill appends n bytes of prm.DumpFillMkey. Only requests of this host can use it, in all
// PDs.
func (d *Device) dumpFill(dst [][]byte, a access, n uint64) ([][]byte, error) {
	m := &d.dumpFillMemory
	if m.dump == nil {
		m.dump, m.fill = make([]byte, dumpPiece), make([]byte, dumpPiece)
	}
	var b []byte
	switch a.right {
	case localRead:
		b = m.fill
	case localWrite:
		b = m.dump
	default:
		return dst, fmt.Errorf("the dump and fill key %#x does not allow %s", prm.DumpFillMkey, a.right.name)
	}
	for n > 0 {
		if err := d.step(); err != nil {
			return dst, err
		}
		part := min(n, dumpPiece)
		dst = append(dst, b[:part])
		n -= part
	}
	return dst, nil
}
