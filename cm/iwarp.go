// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"syscall"
	"time"

	"purerdma/verbs"
)

// iWARP differs from the other transports in these ways:
//
//   - The kernel moves the QP when it connects or accepts, and when the connection ends. The
//     library then sets the state that the QP has in this process.
//   - siw connects the TCP stream within CONNECT. A failure to connect is the error of the
//     command, and not an event. erdma connects it later, and the event is EventRejected or
//     EventUnreachable.
//   - erdma connects over IPv4 only. It does not negotiate the depths of READs.
//   - The active side gets ESTABLISHED, never CONNECT_RESPONSE.
//   - There is no TIMEWAIT_EXIT.
//   - When a connection ends, the kernel first flushes and then sends the event.
//   - On siw connecting, disconnecting and destroying wait in the kernel for the peer. Calls that
//     a context must be able to end leave these commands behind in goroutines.

func (id *ID) iwarp() bool { return id.transport() == verbs.TransportIWARP }

// ready sets the state of a QP to RTS after the kernel has moved it there.
func (id *ID) ready(qp *verbs.QP) {
	if qp != nil && id.iwarp() {
		qp.SetState(verbs.QPRTS)
	}
}

// limitReads records that this side has excluded READs. Otherwise the depth of the QP is unknown: siw
// negotiates it, and an eRDMA adapter does not get it.
func (id *ID) limitReads(p *ConnParam) {
	if id.iwarp() && p.InitiatorDepth == 0 {
		id.readDepth.Store(0)
	}
}

// refused replaces the errno of a failed TCP connection with the error type that the other
// transports return.
func (id *ID) refused(err error) error {
	var errno syscall.Errno
	oe, ok := err.(*OpError)
	if !ok || !id.iwarp() || !errors.As(err, &errno) {
		return err
	}
	switch errno {
	case syscall.ECONNREFUSED, syscall.ECONNRESET:
		oe.Err = &RejectError{Transport: verbs.TransportIWARP, Status: -int(errno)}
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT:
		oe.Err = &UnreachableError{Event: EventUnreachable, Status: -int(errno)}
	}
	return oe
}

// awaitEnd waits for the event that explains a flush. The event is on its way, unless the QP's
// user has moved the QP to the error state.
func (ep *endpoint) awaitEnd() {
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-ep.ended:
	case <-ep.pumped:
	case <-grace.C:
	}
}
