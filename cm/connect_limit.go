// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"

	"purerdma/internal/cdev"
)

// maxConnecting bounds the attempts to connect that the blocking calls of a process have in the
// kernel at a time.
const maxConnecting = 256

// connecting limits the attempts to connect of this process.
var connecting = newConnectLimit(maxConnecting)

// connectLimit bounds the attempts to connect that are in the kernel. On iWARP the kernel makes
// the TCP connection within CONNECT. If the peer does not answer, the command occupies a thread
// of the process for two minutes. Nothing can end it early, because a signal would close the
// connection as soon as it is established (docs/reference/driver-faults.md). The DESTROY_ID that
// follows occupies a thread for ten seconds if the peer has accepted the TCP connection and does
// not answer the request (destroy_cm_id waits for IWCM_F_CONNECT_WAIT). A dial whose context ends
// leaves both commands behind. The Go runtime ends a process that has 10,000 threads.
type connectLimit struct {
	slots     chan struct{}
	abandoned atomic.Int32 // attempts that no dial waits for
}

func newConnectLimit(n int) *connectLimit { return &connectLimit{slots: make(chan struct{}, n)} }

// enter waits for a free slot. It fails at once if abandoned attempts occupy all slots.
func (l *connectLimit) enter(ctx context.Context) (*connectSlot, error) {
	select {
	case l.slots <- struct{}{}:
		return newConnectSlot(l), nil
	default:
	}
	n := cap(l.slots)
	if int(l.abandoned.Load()) >= n {
		return nil, fmt.Errorf("%d cancelled dials of this process are still in the kernel, for up to two minutes on iWARP: %w", n, syscall.EAGAIN)
	}
	select {
	case l.slots <- struct{}{}:
		return newConnectSlot(l), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w (%d dials of this process are in the kernel, which is the maximum)", cdev.ContextError(ctx), n)
	}
}

// connectSlot is the slot of one attempt. A nil connectSlot stands for an attempt that is not
// counted.
type connectSlot struct {
	limit *connectLimit
	users atomic.Int32 // CONNECT, and on iWARP the ID
	state atomic.Uint32
}

// newConnectSlot returns a slot that CONNECT uses.
func newConnectSlot(l *connectLimit) *connectSlot {
	s := &connectSlot{limit: l}
	s.users.Store(1)
	return s
}

// States of a connectSlot.
const (
	connectWaited uint32 = iota
	connectAbandoned
	connectReturned
)

// abandon records that no dial waits for the attempt any more.
func (s *connectSlot) abandon() {
	if s != nil && s.state.CompareAndSwap(connectWaited, connectAbandoned) {
		s.limit.abandoned.Add(1)
	}
}

// leave ends one use of the slot. The last use frees it.
func (s *connectSlot) leave() {
	if s == nil || s.users.Add(-1) > 0 {
		return
	}
	if s.state.Swap(connectReturned) == connectAbandoned {
		s.limit.abandoned.Add(-1)
	}
	<-s.limit.slots
}

// occupy has an ID use a slot until DESTROY_ID has returned, or until vacate. Only DESTROY_ID of
// iWARP waits for the peer.
func (id *ID) occupy(s *connectSlot) {
	if s == nil || !id.iwarp() {
		return
	}
	s.users.Add(1)
	id.close.slot.Store(s)
	if id.gate.isShut() {
		id.vacate() // CONNECT will fail, and DESTROY_ID may have returned
	}
}

// vacate ends the ID's use of a slot.
func (id *ID) vacate() { id.close.slot.Swap(nil).leave() }
