// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"fmt"
	"syscall"

	"purerdma/provider"
)

// queueShape has the sizes of the queues of a QP. The kernel computes the same sizes from the request.
type queueShape struct {
	slots    int // of the ring of the send queue
	most     int // slots of the largest request
	entries  int // requests of the ring, each of the fewest slots
	sends    int // requests that fit
	sendSGE  int
	inline   int
	table    int // bytes of the search table
	messages int // entries of a search table in the order of messages

	recvs    int // receives of the ring, one more than fit. 0 without a ring
	recvSize int // bytes of a receive
	recvSGE  int
}

// The send queue keeps room for requests of the adapter (BNXT_RE_FULL_FLAG_DELTA). The ring of requests of variable
// size has a multiple of slotAlign slots.
const (
	reserved  = 128
	slotAlign = 256
)

// queues returns the sizes for a QP, or an error if the device has no such queues.
func (c *caps) queues(cfg *provider.QPConfig) (*queueShape, error) {
	want := &cfg.Cap
	if want.SendWR < 0 || want.SendWR > c.maxQPWR || want.RecvWR < 0 || want.RecvWR > c.maxQPWR {
		return nil, fmt.Errorf("bnxt_re: queues of %d requests and %d receives, at most %d: %w", want.SendWR, want.RecvWR, c.maxQPWR, syscall.EINVAL)
	}
	if want.SendSGE < 0 || want.SendSGE > c.maxSGE || want.RecvSGE < 0 || want.RecvSGE > c.maxSGE {
		return nil, fmt.Errorf("bnxt_re: %d and %d scatter/gather elements, at most %d: %w", want.SendSGE, want.RecvSGE, c.maxSGE, syscall.EINVAL)
	}
	if most := c.maxSGE * slotSize; want.Inline < 0 || want.Inline > most {
		return nil, fmt.Errorf("bnxt_re: %d bytes of inline data, at most %d: %w", want.Inline, most, syscall.EINVAL)
	}
	s := &queueShape{}
	c.sendShape(s, want)
	if cfg.SRQ == nil {
		c.recvShape(s, want)
	}
	return s, nil
}

func (c *caps) sendShape(s *queueShape, want *provider.QPCap) {
	requests := c.depth(want.SendWR+1+reserved, c.maxQPWR+1+reserved)
	s.most = staticSlots
	if c.variable {
		s.most = headerSlots + max(want.SendSGE, alignUp(want.Inline, slotSize)/slotSize)
	}
	s.slots, s.entries = requests*s.most, requests
	if c.variable {
		s.slots = alignUp(s.slots, slotAlign)
		s.entries = s.slots
	}
	s.sends = (s.slots - 1 - reserved*s.most) / s.most
	s.sendSGE, s.inline = min(s.most-headerSlots, c.maxSGE), (s.most-headerSlots)*slotSize
	positions := s.entries
	if c.msn {
		positions = roundUp(positions)
		s.messages = positions
		if c.variable {
			s.messages /= 2
		}
	}
	s.table = positions * c.entrySize()
}

// recvShape has at least one element, because a receive without any has an element of length 0.
func (c *caps) recvShape(s *queueShape, want *provider.QPCap) {
	s.recvs = c.depth(want.RecvWR+1, c.maxQPWR+1)
	elements := max(want.RecvSGE, 1)
	s.recvSGE = elements
	if !c.variable {
		elements = staticSGE
		s.recvSGE = c.maxSGE
	}
	s.recvSize = (headerSlots + elements) * slotSize
}

func (s *queueShape) sendBytes() int { return s.slots*slotSize + s.table }

func (s *queueShape) recvBytes() int { return s.recvs * s.recvSize }
