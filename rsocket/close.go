// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"errors"
	"net"
	"os"
	"time"

	"purerdma/internal/streamconn"
	"purerdma/verbs"
)

// Close returns when closeGrace has passed without progress. A goroutine then continues to wait, until
// lingerGrace has passed without progress.
const (
	closeGrace  = time.Second
	lingerGrace = time.Minute
)

// Close implements streamconn.Protocol. Unless linger is 0, it sends the committed bytes and a disconnect
// message before it closes the connection.
func (l *link) Close(linger time.Duration) error {
	l.mu.Lock()
	l.closing = true
	l.shutRead()
	if linger != 0 {
		l.send.fin = finDisconnect
		l.flush()
	}
	l.unlock()
	switch {
	case linger == 0:
	case linger > 0:
		if !l.awaitSettled(linger, false) {
			return errors.Join(os.ErrDeadlineExceeded, l.end())
		}
	case !l.awaitSettled(closeGrace, true):
		go func() {
			l.awaitSettled(lingerGrace, true)
			_ = l.end() // Close has returned
		}()
		return nil
	}
	return l.end()
}

// settledNow reports whether the peer's device has everything that this side will send, or the connection
// has failed. A peer that has closed takes no more, but requests that were posted before may still be on their way. The
// caller holds mu.
func (l *link) settledNow() bool {
	if l.err != nil || l.flushed {
		return true
	}
	acked := l.ctrlFree == ctrlSlots && l.send.posted == l.send.acked && l.maps.posted == l.maps.acked
	return acked && (l.peerGone || l.send.finPosted == finDisconnect)
}

// awaitSettled waits for settledNow. It returns false after d. If progress is set, each acknowledged byte
// starts d again.
func (l *link) awaitSettled(d time.Duration, progress bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	last := uint64(0)
	for {
		l.mu.Lock()
		done := l.settledNow()
		acked := l.send.acked
		l.mu.Unlock()
		if done {
			return true
		}
		if progress && acked != last {
			last = acked
			timer.Reset(d)
		}
		select {
		case <-l.settled:
		case <-timer.C:
			return false
		}
	}
}

// end closes the objects of the link.
func (l *link) end() error {
	var errs []error
	if l.conn != nil {
		l.mu.Lock()
		l.alive.stop()
		l.mu.Unlock()
		errs = append(errs, l.conn.Close())
	}
	if l.cq != nil {
		errs = append(errs, l.cq.Close())
	}
	l.mu.Lock()
	l.stop(net.ErrClosed)
	l.unlock()
	var freed error
	if streamconn.WhenIdle(l.stream, func() { freed = l.free() }) {
		errs = append(errs, freed)
	}
	return errors.Join(errs...)
}

// free deregisters the buffers. Its caller ensures that no reader or writer uses them: see
// streamconn.WhenIdle.
func (l *link) free() error {
	var errs []error
	for _, mr := range []*verbs.MR{l.recvMR, l.sendMR, l.maps.staging} {
		if mr != nil {
			errs = append(errs, mr.Close())
		}
	}
	return errors.Join(errs...)
}
