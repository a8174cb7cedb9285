// SPDX-License-Identifier: Apache-2.0

package stream

import "time"

// returnAfter is the time without a frame after which a connection returns its credits above baseWindow.
const returnAfter = time.Second

// watchIdle starts the timer that calls idle, if either side has more credits than baseWindow. The caller
// holds the lock.
func (l *link) watchIdle() {
	s, r := &l.send, &l.recv
	extra := s.shared && s.credits() > baseWindow || l.budget != nil && r.window > baseWindow
	if !extra || s.idleSet || l.freed || l.broken {
		return
	}
	s.idleSet, s.idleSent, s.idleReceived = true, s.sent, r.received
	if s.idle == nil {
		s.idle = time.AfterFunc(returnAfter, l.idle)
	} else {
		s.idle.Reset(returnAfter)
	}
}

// idle returns credits in each direction in which no frame was sent since the timer was set. This side
// takes back the credits that it has not announced, and the peer returns the others.
func (l *link) idle() {
	l.mu.Lock()
	defer l.unlock()
	s, r := &l.send, &l.recv
	s.idleSet = false
	if l.broken || l.freed {
		return
	}
	if l.budget != nil && r.received == s.idleReceived {
		if n := min(r.window-baseWindow, int(r.granted()-r.announced)); n > 0 {
			r.window -= n
			l.budget.release(n)
		}
	}
	n := s.credits() - baseWindow
	if s.shared && n > 0 && s.sent == s.idleSent && s.inFlight < maxSends+controlSends && !l.mute {
		s.sent += uint32(n)
		l.post(&frame{}, nil, 0)
	}
	l.watchIdle()
}
