// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"fmt"

	"purerdma/test/pci"
)

// rights are the accesses that a key allows.
type rights uint8

const (
	localWrite   rights = 1 << 0
	remoteRead   rights = 1 << 1
	remoteWrite  rights = 1 << 2
	remoteAtomic rights = 1 << 3
	bind         rights = 1 << 4
	zeroBased    rights = 1 << 5
)

// Types of keys.
const (
	keyMR       = 0
	keyPhysical = 1 // registered by requests
	keyWindow1  = 2 // memory window of type 1
	keyWindow2A = 3
	keyWindow2B = 4
)

// mr is a memory region or a memory window.
type mr struct {
	key    uint32
	kind   uint8
	pd     uint32
	valid  bool
	rights rights
	start  uint64
	length uint64
	all    bool // all memory, by DMA addresses
	pages  pci.Pages

	parent  *mr // of a window
	qp      *qp // of a window of type 2
	windows int // bound to the region
}

// maxPages bounds the pages of a region.
const maxPages = 1 << 26

func allocateKey(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	m := &mr{kind: in[0x18] & 0xf, pd: le.Uint32(in[0x1c:])}
	if m.kind > keyWindow2B {
		return invalid("keys of type %d", m.kind)
	}
	if err := d.addKey(m); err != nil {
		return err
	}
	le.PutUint32(answer[4:], m.key)
	return nil
}

// addKey adds a region or window with a new key.
func (d *Device) addKey(m *mr) error {
	n, ok := number(d, d.mrs, "key", 1, maxMR)
	if !ok {
		return refuse(channelNoResource, "there are %d keys", len(d.mrs))
	}
	m.key = n << 8
	d.mrs[n] = m
	return nil
}

// mr returns the region or window with a key.
func (d *Device) mr(key uint32) (*mr, error) {
	m := d.mrs[key>>8]
	if m == nil || m.key != key {
		return nil, invalid("there is no key %#x", key)
	}
	return m, nil
}

func deallocateKey(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	key := le.Uint32(in[0x14:])
	m := d.mrs[key>>8]
	switch {
	case m == nil:
		return invalid("there is no key %#x", key)
	case m.windows > 0:
		return invalid("key %#x has %d windows", key, m.windows)
	}
	m.unbind()
	delete(d.mrs, key>>8)
	le.PutUint32(answer[4:], key)
	return nil
}

func registerMR(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	m, err := d.mr(le.Uint32(in[0x14:]))
	switch {
	case err != nil:
		return err
	case m.kind != keyMR && m.kind != keyPhysical:
		return invalid("key %#x is one of a window", m.key)
	}
	levels, shift := int(in[0x10]&3), uint(in[0x10]>>2&31)
	table, start, length := le.Uint64(in[0x18:]), le.Uint64(in[0x20:]), le.Uint64(in[0x28:])
	m.rights = rights(in[0x11])
	m.start, m.length, m.all = start, length, table == 0
	if !m.all {
		if shift < 12 || shift > 31 || length == 0 || length > 1<<logMaxMR {
			return invalid("%#x bytes in pages of 2^%d bytes", length, shift)
		}
		m.pages = pci.Pages{Table: table &^ pageFlags, Levels: levels, LogNode: 12, Shift: shift, Flags: pageFlags, First: start & (1<<shift - 1)}
		m.pages.N = (m.pages.First + length + 1<<shift - 1) >> shift
		if levels == 0 {
			m.pages.Entries = []uint64{table}
		}
		if log := uint(in[0x12]) & 31; levels > 0 && log != 12 {
			return invalid("tables of 2^%d bytes", log)
		}
		if err := m.pages.Check(length, maxPages); err != nil {
			return invalid("%v", err)
		}
	}
	m.valid = true
	le.PutUint32(answer[4:], m.key)
	return nil
}

func deregisterMR(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	key := le.Uint32(in[0x10:])
	m := d.mrs[key>>8]
	if m == nil {
		return invalid("there is no key %#x", key)
	}
	le.PutUint32(answer[4:], key)
	le.PutUint32(answer[12:], uint32(m.windows))
	if m.windows > 0 {
		return invalid("key %#x has %d windows", key, m.windows)
	}
	delete(d.mrs, key>>8)
	return nil
}

// unbind ends the binding of a window.
func (m *mr) unbind() {
	if m.parent != nil {
		m.parent.windows--
		m.parent = nil
	}
	m.qp = nil
	if m.kind >= keyWindow1 {
		m.valid = false
	}
}

// A cause is the reason why an access is refused.
type cause uint8

const (
	badKey cause = iota
	badDomain
	badRight
	badRange
)

// An accessError is a failed access to memory.
type accessError struct {
	cause cause
	text  string
}

func (e *accessError) Error() string { return e.text }

func deny(c cause, format string, args ...any) *accessError {
	return &accessError{c, fmt.Sprintf(format, args...)}
}

// memory appends n bytes of a key from addr on to dst, in pieces.
func (q *qp) memory(dst [][]byte, key uint32, need rights, addr, n uint64) ([][]byte, *accessError) {
	local := need&(remoteRead|remoteWrite|remoteAtomic) == 0
	var ok bool
	if key == reservedLKey && local && q.kernel {
		if dst, ok = pci.Physical(q.d.mem, dst, addr, n); !ok {
			return dst, deny(badRange, "the host has no memory for %d bytes at %#x", n, addr)
		}
		return dst, nil
	}
	m := q.d.mrs[key>>8]
	switch {
	case m == nil || m.key != key || !m.valid:
		return dst, deny(badKey, "there is no valid key %#x", key)
	case m.pd != q.pd:
		return dst, deny(badDomain, "key %#x has PD %d, not %d", key, m.pd, q.pd)
	case m.kind >= keyWindow2A && m.qp != q:
		return dst, deny(badDomain, "key %#x is one of another QP", key)
	case m.kind >= keyWindow1 && local:
		return dst, deny(badKey, "key %#x is one of a window", key)
	case m.rights&need != need:
		return dst, deny(badRight, "key %#x has rights %#x, want %#x", key, m.rights, need)
	}
	if m.rights&zeroBased != 0 {
		addr += m.start
	}
	if addr < m.start || n > m.length || addr-m.start > m.length-n {
		return dst, deny(badRange, "key %#x: %d bytes at %#x, which has %#x bytes at %#x", key, n, addr, m.length, m.start)
	}
	if m.parent != nil {
		m = m.parent
	}
	if m.all {
		dst, ok = pci.Physical(q.d.mem, dst, addr, n)
	} else {
		dst, ok = m.pages.Walk(q.d.mem, dst, addr-m.start, n)
	}
	if !ok {
		return dst, deny(badRange, "key %#x: the host has no memory for %d bytes at %#x", key, n, addr)
	}
	return dst, nil
}

// invalidate makes a key invalid for a QP.
func (q *qp) invalidate(key uint32) *accessError {
	m := q.d.mrs[key>>8]
	switch {
	case m == nil || m.key != key || !m.valid:
		return deny(badKey, "there is no valid key %#x", key)
	case m.pd != q.pd || m.kind >= keyWindow2A && m.qp != q:
		return deny(badDomain, "key %#x is one of another PD or QP", key)
	case m.kind == keyMR || m.kind == keyWindow1 || m.windows > 0:
		return deny(badRight, "key %#x cannot be invalidated", key)
	}
	m.valid = false
	m.unbind()
	return nil
}
