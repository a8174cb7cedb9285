// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"encoding/binary"

	"purerdma/verbs"
)

// Layout of a region. It has cells for writes and reads, words for atomics, and places for the
// messages of WRITE_WITH_IMM.
const (
	cells    = 8
	cellLen  = slotLen
	words    = 16
	wordsOff = cells * cellLen
	placeOff = wordsOff + 4096
	places   = 4

	regionLen = placeOff + places*slotLen
)

// memory contains the region for the peer, and the copy of the peer's region.
type memory struct {
	mr *verbs.MR // own region

	remote verbs.RemoteMemory // the peer's region.
	copy   []byte             // contents of its cells and words after all posted requests.
	busy   [cells]int         // pending reads by cell, whose data must not change
	used   [places]uint64
}

func newMemory(pd *verbs.PD, access verbs.Access) (*memory, error) {
	mr, err := pd.Alloc(regionLen, access)
	if err != nil {
		return nil, err
	}
	return &memory{mr: mr, copy: make([]byte, placeOff)}, nil
}

// checksum returns the checksum of cells and words, which is equal on both sides.
func (m *memory) checksum(b []byte) uint32 { return checksumOf(b[:wordsOff+8*words]) }

func (m *memory) word(i int) uint64 { return binary.NativeEndian.Uint64(m.copy[wordsOff+8*i:]) }

func (m *memory) setWord(i int, v uint64) {
	binary.NativeEndian.PutUint64(m.copy[wordsOff+8*i:], v)
}

// placed returns the message of a WRITE_WITH_IMM, or nil for an invalid place.
func (m *memory) placed(wc verbs.WC) []byte {
	if wc.ImmData >= places || wc.ByteLen > slotLen {
		return nil
	}
	return m.mr.Bytes()[placeOff+int(wc.ImmData)*slotLen:][:wc.ByteLen]
}

// freePlace returns a place whose last message the peer has acknowledged, or -1.
func (m *memory) freePlace(acked uint64) int {
	for i, seq := range m.used {
		if seq <= acked {
			return i
		}
	}
	return -1
}
