// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"

	"purerdma/internal/cdev"
)

// maxConnecting bounds the CONNECT commands that the blocking calls of a process have in the
// kernel at a time.
const maxConnecting = 256

// connecting limits the CONNECT commands of this process.
var connecting = newConnectLimit(maxConnecting)

// connectLimit bounds the CONNECT commands that are in the kernel. On iWARP the kernel makes
// the TCP connection within the command. If the peer does not answer, the command occupies a
// thread of the process for two minutes. Nothing can end it early, because a signal would
// close the connection as soon as it is established (docs/reference/driver-faults.md). A dial
// whose context ends leaves its command behind. The Go runtime ends a process that has 10,000
// threads.
type connectLimit struct {
	slots     chan struct{}
	abandoned atomic.Int32 // commands that no dial waits for
}

func newConnectLimit(n int) *connectLimit { return &connectLimit{slots: make(chan struct{}, n)} }

// enter waits for a free slot. It fails at once if abandoned commands occupy all slots.
func (l *connectLimit) enter(ctx context.Context) (*connectSlot, error) {
	select {
	case l.slots <- struct{}{}:
		return &connectSlot{limit: l}, nil
	default:
	}
	n := cap(l.slots)
	if int(l.abandoned.Load()) >= n {
		return nil, fmt.Errorf("%d cancelled dials of this process are still in the kernel, for up to two minutes on iWARP: %w", n, syscall.EAGAIN)
	}
	select {
	case l.slots <- struct{}{}:
		return &connectSlot{limit: l}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w (%d dials of this process are in the kernel, which is the maximum)", cdev.ContextError(ctx), n)
	}
}

// connectSlot is the slot of one command. A nil connectSlot stands for a command that is not
// counted.
type connectSlot struct {
	limit *connectLimit
	state atomic.Uint32
}

// States of a connectSlot.
const (
	connectWaited uint32 = iota
	connectAbandoned
	connectReturned
)

// abandon records that no dial waits for the command any more.
func (s *connectSlot) abandon() {
	if s != nil && s.state.CompareAndSwap(connectWaited, connectAbandoned) {
		s.limit.abandoned.Add(1)
	}
}

// leave frees the slot when the command has returned.
func (s *connectSlot) leave() {
	if s == nil {
		return
	}
	if s.state.Swap(connectReturned) == connectAbandoned {
		s.limit.abandoned.Add(-1)
	}
	<-s.limit.slots
}
