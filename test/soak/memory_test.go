// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"encoding/binary"

	"purerdma/verbs"
)

// A region: cells to write and read, words to count in, places for the messages of
// WRITE_WITH_IMM.
const (
	cells    = 8
	cellLen  = slotLen
	words    = 16
	wordsOff = cells * cellLen
	placeOff = wordsOff + 4096
	places   = 4

	regionLen = placeOff + places*slotLen
)

// memory is what the peer works in, and our copy of where we do.
type memory struct {
	mr *verbs.MR // ours

	remote verbs.RemoteMemory // the peer's
	copy   []byte             // what its cells and words hold when all that we posted has been done
	busy   [cells]int         // reads that have not completed: what they read must not change
	used   [places]uint64
}

func newMemory(pd *verbs.PD, access verbs.Access) (*memory, error) {
	mr, err := pd.Alloc(regionLen, access)
	if err != nil {
		return nil, err
	}
	return &memory{mr: mr, copy: make([]byte, placeOff)}, nil
}

// checksum is that of cells and words, as both sides see them.
func (m *memory) checksum(b []byte) uint32 { return checksumOf(b[:wordsOff+8*words]) }

func (m *memory) word(i int) uint64 { return binary.NativeEndian.Uint64(m.copy[wordsOff+8*i:]) }

func (m *memory) setWord(i int, v uint64) {
	binary.NativeEndian.PutUint64(m.copy[wordsOff+8*i:], v)
}

// placed returns the message that a WRITE_WITH_IMM has brought, nil if there is no
// such place.
func (m *memory) placed(wc verbs.WC) []byte {
	if wc.ImmData >= places || wc.ByteLen > slotLen {
		return nil
	}
	return m.mr.Bytes()[placeOff+int(wc.ImmData)*slotLen:][:wc.ByteLen]
}

// freePlace returns a place whose last message the peer has seen, or -1.
func (m *memory) freePlace(acked uint64) int {
	for i, seq := range m.used {
		if seq <= acked {
			return i
		}
	}
	return -1
}
