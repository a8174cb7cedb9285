// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// kind is the kind of a message.
type kind uint8

const (
	kindData   kind = iota + 1
	kindOffer       // A and B are address and key of memory for the peer to fill, C is its length with offerInv.
	kindAnswer      // A is the address of the filled offer, B the checksum of its data.
	kindQuiet       // no more offers or data follow.
	kindFin         // A is the number of messages including this one, B the checksum of the peer's region.
	kindCredit      // not numbered. It always has a receive.
)

// header precedes the payload of each message.
type header struct {
	kind      kind
	lane, gen uint32
	seq       uint64 // numbered from 1, 0 for credits.
	seen      uint64 // last message of the peer without gaps.
	a, b, c   uint64
	length    int // length of the payload
}

const (
	headerLen = 64
	magic     = 0x534f414b // SOAK
)

var table = crc32.MakeTable(crc32.Castagnoli)

// put writes the header before an existing payload, and returns the checksum.
func (h *header) put(b []byte) uint32 {
	le := binary.LittleEndian
	le.PutUint32(b[0:], magic)
	le.PutUint32(b[4:], uint32(h.kind))
	le.PutUint32(b[8:], h.lane)
	le.PutUint32(b[12:], h.gen)
	le.PutUint64(b[16:], h.seq)
	le.PutUint64(b[24:], h.seen)
	le.PutUint64(b[32:], h.a)
	le.PutUint64(b[40:], h.b)
	le.PutUint64(b[48:], h.c)
	le.PutUint32(b[56:], uint32(h.length))
	sum := h.sum(b)
	le.PutUint32(b[60:], sum)
	return sum
}

func (h *header) sum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:60], table), table, b[headerLen:headerLen+h.length])
}

// parse validates a message, and returns its header and checksum.
func parse(b []byte) (h header, sum uint32, err error) {
	le := binary.LittleEndian
	if len(b) < headerLen || le.Uint32(b) != magic {
		return h, 0, fmt.Errorf("%d bytes, which begin with %x: no message", len(b), b[:min(len(b), 8)])
	}
	h = header{kind: kind(le.Uint32(b[4:])), lane: le.Uint32(b[8:]), gen: le.Uint32(b[12:]), seq: le.Uint64(b[16:]),
		seen: le.Uint64(b[24:]), a: le.Uint64(b[32:]), b: le.Uint64(b[40:]), c: le.Uint64(b[48:]), length: int(le.Uint32(b[56:]))}
	sum = le.Uint32(b[60:])
	if h.length != len(b)-headerLen {
		return h, sum, fmt.Errorf("message %d of lane %d.%d has %d bytes, and should have %d", h.seq, h.lane, h.gen, len(b)-headerLen, h.length)
	}
	if got := h.sum(b); got != sum {
		return h, sum, fmt.Errorf("message %d of lane %d.%d, of %d bytes: checksum %#x, not %#x", h.seq, h.lane, h.gen, h.length, got, sum)
	}
	return h, sum, nil
}

// fill writes random bytes to b.
func fill(r *rand.Rand, b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, r.Uint64())
	}
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// size returns a random number up to most, with a preference for small ones.
func size(r *rand.Rand, most int) int { return r.IntN(1 + most>>r.IntN(8)) }

// TestMessage checks that parse reverts put, and that a change of any bit is detected.
func TestMessage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 100} {
		b := make([]byte, headerLen+n)
		fill(r, b[headerLen:])
		h := header{kind: kindOffer, lane: 3, gen: 4, seq: 5, seen: 6, a: 7, b: 8, c: 9, length: n}
		sum := h.put(b)
		if got, s, err := parse(b); got != h || s != sum || err != nil {
			t.Errorf("parse = %+v, %#x, %v", got, s, err)
		}
		for bit := range 8 * len(b) {
			b[bit/8] ^= 1 << (bit % 8)
			if _, _, err := parse(b); err == nil {
				t.Errorf("parse with a changed bit %d = nil error", bit)
			}
			b[bit/8] ^= 1 << (bit % 8)
		}
		if _, _, err := parse(b[:len(b)-1]); err == nil {
			t.Error("parse with a missing byte = nil error")
		}
	}
}
