// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"syscall"
	"time"

	"purerdma/verbs"
)

// What is different on iWARP:
//
//   - The kernel moves the QP, when it connects or accepts and when the connection
//     ends. The QP is told.
//   - The kernel connects the TCP stream within CONNECT, and what comes of that is
//     the command's error, and no event.
//   - The active side gets ESTABLISHED, never CONNECT_RESPONSE.
//   - There is no TIMEWAIT_EXIT.
//   - When a connection ends the kernel flushes first, and tells then.
//   - Connecting, disconnecting and destroying wait in the kernel for the peer:
//     where a context should end them, they are left behind in goroutines.

func (id *ID) iwarp() bool { return id.transport() == verbs.TransportIWARP }

// ready tells a QP that the kernel has moved it to RTS.
func (id *ID) ready(qp *verbs.QP) {
	if qp != nil && id.iwarp() {
		qp.SetState(verbs.QPRTS)
	}
}

// refused turns what the TCP connection failed with into the error that the same
// is on the other transports.
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

// awaitEnd waits for the event that explains a flush: it is on its way, unless the
// QP's user has moved it himself.
func (ep *endpoint) awaitEnd() {
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-ep.ended:
	case <-ep.pumped:
	case <-grace.C:
	}
}
