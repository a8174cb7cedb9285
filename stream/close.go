// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"errors"
	"os"
	"time"

	"purerdma/internal/streamconn"
)

// Close implements streamconn.Protocol. Unless linger is 0, it sends the committed bytes and the end of
// the stream before it closes the connection.
func (l *link) Close(linger time.Duration) error {
	l.mu.Lock()
	l.shutRead()
	if linger != 0 {
		l.endWrite()
		l.pump() // if the stream ended before, the peer may still need the credits of the discarded data
	}
	l.unlock()
	switch {
	case linger == 0:
	case linger > 0:
		if !l.awaitSettled(linger, false) {
			return errors.Join(os.ErrDeadlineExceeded, l.freeAll())
		}
	case !l.awaitSettled(closeGrace, true):
		go func() {
			l.awaitSettled(lingerGrace, true)
			_ = l.freeAll() // no caller waits for the error
		}()
		return nil
	}
	return l.freeAll()
}

// ended reports whether the peer's device has received the whole stream, or the connection has failed. It
// also returns the number of bytes that remain. On iWARP a send completes when TCP has taken it, so only a
// frame of the peer confirms the end.
func (l *link) ended() (bool, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.send
	return l.broken || s.fin == finConfirmed || s.fin == finSent && s.inFlight == 0 && !l.iwarp, s.buffered
}

// awaitSettled waits until ended reports true. It returns false after d. If progress is set, each change
// of the remaining bytes starts d again.
func (l *link) awaitSettled(d time.Duration, progress bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for last := -1; ; {
		ended, left := l.ended()
		if ended {
			return true
		}
		if progress && left != last {
			last = left
			timer.Reset(d)
		}
		select {
		case <-l.settled:
		case <-timer.C:
			return false
		}
	}
}

// freeAll closes the connection and frees its objects. Memory that a reader or a writer uses is freed
// later.
func (l *link) freeAll() error {
	errs := []error{l.conn.Close()}
	if freed := error(nil); streamconn.WhenIdle(l.stream, func() { freed = l.free() }) {
		errs = append(errs, freed)
	}
	return errors.Join(errs...)
}

// free frees the memory of the connection and returns its credits. Its caller ensures that no reader or
// writer uses the memory: see streamconn.WhenIdle.
func (l *link) free() error {
	l.mu.Lock()
	l.fail(os.ErrClosed)
	r, s := &l.recv, &l.send
	l.freed, r.ended = true, true
	for r.messages.Len() > 0 {
		r.messages.Pop().Free()
	}
	for s.queue.Len() > 0 {
		s.unref(s.queue.Pop().block)
	}
	s.dropCur()
	s.dropSpare()
	s.share.leave()
	if s.inFlight == 0 && s.headers != nil {
		s.headers.Free()
	}
	if s.cancel != nil {
		s.cancel()
	}
	if s.idle != nil {
		s.idle.Stop()
	}
	l.unlock()
	return l.leaveShared()
}
