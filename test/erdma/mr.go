// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"fmt"

	"purerdma/test/pci"
)

// rights are the accesses that a memory region allows.
type rights uint8

const (
	remoteAtomic rights = 1 << iota
	localRead
	localWrite
	remoteRead
	remoteWrite
)

// Kinds of memory regions.
const (
	mrNormal = 0 // registered by a command
	mrFast   = 1 // registered by requests
	mrAll    = 2 // all memory, by DMA addresses
)

// mr is a memory region.
type mr struct {
	key    uint32
	kind   uint8
	pd     uint32
	rights rights
	valid  bool
	start  uint64
	length uint64
	list   pci.Pages // page list of the command that created the region
	pages  pci.Pages // page list of the registered memory
}

func regMR(d *Device, in []byte) (answer, error) {
	cfg0, cfg1, cfg2 := uint64(le.Uint32(in[8:])), uint64(le.Uint32(in[12:])), uint64(le.Uint32(in[28:]))
	index := uint32(bits(cfg0, 19, 0))
	m := &mr{
		key: index<<8 | uint32(bits(cfg0, 27, 20)), valid: bits(cfg0, 31, 31) != 0,
		pd: uint32(bits(cfg1, 31, 12)), kind: uint8(bits(cfg1, 7, 6)), rights: rights(bits(cfg1, 5, 1)),
	}
	switch {
	case index >= maxMR || d.mrs[index] != nil:
		return answer{}, fmt.Errorf("region %#x exists, or is not below %#x", index, maxMR)
	case m.kind > mrAll:
		return answer{}, fmt.Errorf("region of kind %d", m.kind)
	}
	if m.kind != mrAll {
		m.list = pci.Pages{Shift: uint(bits(cfg2, 31, 27)), Levels: int(bits(cfg2, 21, 20)), N: bits(cfg2, 19, 0), Table: le.Uint64(in[32:])}
		if m.kind == mrNormal {
			m.start, m.length = le.Uint64(in[16:]), uint64(le.Uint32(in[24:]))
		}
		if bits(cfg0, 30, 28) != 0 {
			m.list.LogNode = 12 + uint(bits(cfg2, 26, 24))
			m.length |= uint64(le.Uint32(in[40:])) << 32
			m.list.N |= uint64(le.Uint32(in[44:])) << 20
		}
		if err := m.check(in[32:64]); err != nil {
			return answer{}, err
		}
	}
	d.mrs[index] = m
	return answer{}, nil
}

// check checks the page list of a new region. list contains the entries of a list without a table.
func (m *mr) check(list []byte) error {
	p := &m.list
	if p.Levels == 0 {
		if p.N > 4 {
			return fmt.Errorf("%d pages without a table, want at most 4", p.N)
		}
		for i := range p.N {
			p.Entries = append(p.Entries, le.Uint64(list[8*i:]))
		}
	}
	if p.Levels > 1 && p.LogNode == 0 {
		return fmt.Errorf("%d levels of tables without the size of a table", p.Levels)
	}
	p.First = m.start & (1<<p.Shift - 1)
	if m.kind == mrNormal && (m.length == 0 || m.length > 1<<logMaxMR) {
		return fmt.Errorf("region of %#x bytes, want 1 to %#x", m.length, uint64(1)<<logMaxMR)
	}
	m.pages = *p
	return p.Check(m.length, maxPages)
}

func deregMR(d *Device, in []byte) (answer, error) {
	cfg := uint64(le.Uint32(in[8:]))
	index := uint32(bits(cfg, 19, 0))
	if m := d.mrs[index]; m == nil {
		return answer{}, fmt.Errorf("there is no region %#x", index)
	}
	delete(d.mrs, index)
	return answer{}, nil
}

// An accessError is a failed access to memory.
type accessError struct {
	cause cause
	text  string
}

func (e *accessError) Error() string { return e.text }

func refuse(c cause, format string, args ...any) *accessError {
	return &accessError{c, fmt.Sprintf(format, args...)}
}

// region returns the valid region with a key for a QP's PD.
func (d *Device) region(key, pd uint32) (*mr, *accessError) {
	m := d.mrs[key>>8]
	switch {
	case m == nil || m.key != key:
		return nil, refuse(badKey, "there is no key %#x", key)
	case !m.valid && m.kind != mrAll:
		return nil, refuse(badKey, "key %#x is invalid", key)
	case m.pd != pd:
		return nil, refuse(badPD, "key %#x has PD %d, not %d", key, m.pd, pd)
	}
	return m, nil
}

// memory returns n bytes of a key from addr on, in pieces.
func (q *qp) memory(key uint32, need rights, addr, n uint64) (pieces [][]byte, err *accessError) {
	var ok bool
	if key == localKey && need&(localRead|localWrite) != 0 {
		pieces, ok = pci.Physical(q.d.mem, nil, addr, n)
	} else {
		m, err := q.d.region(key, q.pd)
		switch {
		case err != nil:
			return nil, err
		case m.rights&need != need:
			return nil, refuse(badRight, "key %#x has rights %#x, want %#x", key, m.rights, need)
		case m.kind == mrAll:
			pieces, ok = pci.Physical(q.d.mem, nil, addr, n)
		case addr < m.start || n > m.length || addr-m.start > m.length-n:
			return nil, refuse(badAddress, "key %#x has %#x+%#x, not %#x+%#x", key, m.start, m.length, addr, n)
		default:
			pieces, ok = m.pages.Walk(q.d.mem, nil, addr-m.start, n)
		}
	}
	if !ok {
		return nil, refuse(badAddress, "the host has no memory for %#x+%#x of key %#x", addr, n, key)
	}
	return pieces, nil
}

// invalidate invalidates a key of a region that requests register.
func (d *Device) invalidate(key, pd uint32) *accessError {
	m, err := d.region(key, pd)
	if err == nil && m.kind != mrFast {
		err = refuse(badRight, "key %#x is not of a region that requests register", key)
	}
	if err == nil {
		m.valid = false
	}
	return err
}
