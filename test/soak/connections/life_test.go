// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"testing"

	"purerdma/internal/vmtest"
)

// life is the time in which a connection must not fail. It ends when the process with the other side is killed, or
// when a device is removed.
type life struct {
	peer    *process      // that has the other side, or nil
	removed chan struct{} // closed before the next removal of a device
}

func (l life) over() bool { return l.peer.died() || closed(l.removed) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lifeWith returns the life of a connection that begins now. It is over while a device is removed.
func (s *soak) lifeWith(peer *process) life { return life{peer, *s.removed.Load()} }

// lifeOf returns the life of an accepted connection with a seed. The dialing side has the same life, which may have
// begun before a removal.
func (s *soak) lifeOf(seed uint64, peer *process) life {
	if l, ok := s.dialedLives.LoadAndDelete(seed); ok {
		return l.(life)
	}
	return s.lifeWith(peer)
}

// replug removes the device of a host and creates it again. The process of a peer that uses the device was killed.
func (s *soak) replug(t *testing.T, h vmtest.Host) {
	close(*s.removed.Load())
	if err := h.Unplug(); err != nil {
		s.fault("Unplug: %w", err)
		return
	}
	h.Plug(t)
	s.stats.removals.Add(1)
	next := make(chan struct{})
	s.removed.Store(&next)
}
