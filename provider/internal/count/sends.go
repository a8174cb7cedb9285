// SPDX-License-Identifier: Apache-2.0

// Package count holds the counters of the providers' queues. An idle queue keeps no memory for them. A
// counter has no lock. The lock of its queue guards it.
package count

import "purerdma/provider"

// Sends counts send requests by their opcode. The first request allocates its memory, and the first batch
// after a request as much again.
type Sends struct {
	now    *provider.SendCounts // nil without any request
	before *provider.SendCounts // at the beginning of the last batch. nil if that was zero
}

// Add counts a request of n bytes. The opcode must be a constant of package provider.
func (s *Sends) Add(op provider.SendOpcode, n uint64) {
	if s.now == nil {
		s.now = new(provider.SendCounts)
	}
	s.now[op].Add(n)
}

// Begin begins a batch.
func (s *Sends) Begin() {
	if s.now == nil {
		return
	}
	if s.before == nil {
		s.before = new(provider.SendCounts)
	}
	*s.before = *s.now
}

// Discard removes the requests since Begin.
func (s *Sends) Discard() {
	switch {
	case s.before != nil:
		*s.now = *s.before
	case s.now != nil:
		*s.now = provider.SendCounts{}
	}
}

// Counts returns the counts.
func (s *Sends) Counts() provider.SendCounts {
	if s.now == nil {
		return provider.SendCounts{}
	}
	return *s.now
}
