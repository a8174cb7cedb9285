// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"fmt"
	"syscall"
	"time"

	"purerdma/internal/streamconn"
	"purerdma/verbs"
)

// firstProbe is the time after which the dialing side of an iWARP connection sends its first probe,
// which makes siw read a first message that arrived too early (docs/reference/driver-faults.md).
const firstProbe = time.Second

// minAnswer is the least time that a peer has to acknowledge a probe.
const minAnswer = 5 * time.Second

// keepalive probes an idle peer with a WRITE of no bytes, as rdma-core does. The peer's device
// acknowledges it without its program. The link's lock guards it.
type keepalive struct {
	timer   *time.Timer
	period  time.Duration // 0 if the peer is not probed.
	active  bool          // something has completed since the last check.
	probing time.Time     // when the outstanding probe was sent, zero if there is none.
	first   bool          // the next check probes even if the connection is not idle.
	stopped bool
}

func (k *keepalive) touch() { k.active = true }

func (k *keepalive) answered() { k.probing = time.Time{} }

// overdue returns an error if the peer has not acknowledged a probe in time.
func (k *keepalive) overdue() error {
	limit := max(k.period, minAnswer)
	if k.probing.IsZero() || time.Since(k.probing) < limit {
		return nil
	}
	return &streamconn.ResetError{Err: fmt.Errorf("keepalive: the peer has not acknowledged a probe within %v: %w", limit, syscall.ETIMEDOUT)}
}

func (k *keepalive) stop() {
	k.stopped = true
	if k.timer != nil {
		k.timer.Stop()
	}
}

// startKeepAlive starts to probe the peer. A period that is not positive means no probes.
func (l *link) startKeepAlive(period time.Duration, passive bool) {
	k := &l.alive
	k.period = max(period, 0)
	k.first = l.iwarp && !passive
	first := k.period
	if k.first {
		first = firstProbe
	}
	if k.timer = time.AfterFunc(time.Hour, l.checkPeer); first > 0 {
		k.timer.Reset(first)
	} else {
		k.timer.Stop()
	}
}

// setKeepAlive changes the period. 0 ends the probes.
func (l *link) setKeepAlive(period time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.alive
	k.period = period
	switch {
	case k.stopped || k.first: // the next check takes the new period
	case period == 0:
		k.timer.Stop()
	default:
		k.timer.Reset(period)
	}
}

// checkPeer runs when the timer expires. It fails the connection if a probe was not acknowledged in time.
// Otherwise it probes the peer if nothing has completed since the last check.
func (l *link) checkPeer() {
	l.mu.Lock()
	defer l.unlock()
	k := &l.alive
	if k.stopped || !l.usable() {
		return
	}
	if err := k.overdue(); err != nil {
		l.fail(err)
		return
	}
	if k.probing.IsZero() && (!k.active || k.first) && !l.mute && l.ctrlFree > 0 {
		k.first = false
		k.probing = time.Now()
		l.ctrlFree--
		l.sendWR[0] = verbs.SendWR{ID: kindProbe, Opcode: verbs.OpWrite}
		l.postPrepared(1)
	}
	k.active = false
	if k.period > 0 {
		k.timer.Reset(k.period)
	}
}
