// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"encoding/binary"
	"sort"
	"sync"
	"unsafe"
)

// processMemory is the memory of this process that a device may access. The DMA address of a byte is its own
// address. Pieces may overlap.
type processMemory struct {
	mu     sync.RWMutex
	pieces []piece // sorted by address
	hit    piece   // the last found piece
}

type piece struct {
	addr uint64
	b    []byte
	uses int
}

// address returns the address of the first byte.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// Bytes implements connectx.Memory.
func (m *processMemory) Bytes(addr uint64, n int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.hit.part(addr, n); b != nil {
		return b
	}
	// The search starts at the last piece that begins at or before the address.
	i := sort.Search(len(m.pieces), func(i int) bool { return m.pieces[i].addr > addr })
	for i--; i >= 0; i-- {
		if b := m.pieces[i].part(addr, n); b != nil {
			m.hit = m.pieces[i]
			return b
		}
	}
	return nil
}

func (p *piece) part(addr uint64, n int) []byte {
	off := addr - p.addr
	if n < 0 || off > uint64(len(p.b)) || uint64(n) > uint64(len(p.b))-off || n == 0 && len(p.b) == 0 {
		return nil
	}
	return p.b[off:][:n:n]
}

// add makes memory accessible to the device, and counts the calls.
func (m *processMemory) add(b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, found := m.find(b)
	if found {
		m.pieces[i].uses++
		return
	}
	m.pieces = append(m.pieces, piece{})
	copy(m.pieces[i+1:], m.pieces[i:])
	m.pieces[i] = piece{address(b), b, 1}
}

// remove undoes one call of add.
func (m *processMemory) remove(b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, found := m.find(b)
	if !found {
		return
	}
	if m.pieces[i].uses--; m.pieces[i].uses == 0 {
		m.pieces = append(m.pieces[:i:i], m.pieces[i+1:]...)
		m.hit = piece{}
	}
}

// find returns the index of a piece, or the index for its insertion.
func (m *processMemory) find(b []byte) (int, bool) {
	addr := address(b)
	i := sort.Search(len(m.pieces), func(i int) bool { return m.pieces[i].addr >= addr })
	for ; i < len(m.pieces) && m.pieces[i].addr == addr; i++ {
		if len(m.pieces[i].b) == len(b) {
			return i, true
		}
	}
	return i, false
}

// pageSize is the size of the pages in which the driver passes memory to the device.
const pageSize = 4096

// pageList lists the pages of memory.
func pageList(b []byte) (list []byte) {
	first := address(b) &^ (pageSize - 1)
	for a := first; a < address(b)+uint64(len(b)); a += pageSize {
		list = binary.BigEndian.AppendUint64(list, a)
	}
	return list
}

// offset returns the start of memory in its first page.
func offset(b []byte) uint64 { return address(b) & (pageSize - 1) }
