// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// ending names a way in which a connection ends.
type ending int

const (
	// Both sides call CloseWrite, and then Close.
	orderly ending = iota
	// One side writes its data and closes. The other side sends none.
	closes
	// One side closes with SetLinger(0) before everything has arrived.
	aborts
)

// plan describes the traffic of a connection and its end.
type plan struct {
	seed   uint64
	size   [2]int64 // bytes that the dialing and the accepting side send
	ending ending
	by     int   // side that ends the connection first
	after  int64 // bytes in both directions after which it aborts
}

func (p plan) String() string {
	side := [...]string{"dialing", "accepting"}[p.by]
	end := [...]string{"orderly end", "the " + side + " side closes", fmt.Sprintf("the %s side aborts after %d bytes", side, p.after)}[p.ending]
	return fmt.Sprintf("connection %#x of %d and %d bytes (%s)", p.seed, p.size[0], p.size[1], end)
}

// newPlan derives the plan of a connection from its seed. Each side sends less than 1<<bits bytes.
func newPlan(seed uint64, bits int) plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := plan{seed: seed, ending: orderly, by: rng.IntN(2)}
	for side := range p.size {
		p.size[side] = rng.Int64N(1 << rng.IntN(bits+1))
	}
	switch rng.IntN(6) {
	case 0:
		p.ending = closes
		p.size[1-p.by] = 0
	case 1:
		p.ending = aborts
		p.after = rng.Int64N(p.size[0] + p.size[1] + 1)
	}
	return p
}

// data returns the bytes that a side sends.
func (p plan) data(side int) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], p.seed)
	key[8] = byte(side)
	return rand.NewChaCha8(key)
}
