// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/inflight"
	"purerdma/verbs"
)

// defaultKeepAlive is the default idle time before a probe of the peer, as in package net.
const defaultKeepAlive = 15 * time.Second

// minAnswer is the least time that a peer has to acknowledge a probe, even if the period is
// shorter. The QP's retries also bound that time.
const minAnswer = 5 * time.Second

// firstProbe is the time from connecting to the first probe of iWARP's active side, which it
// sends idle or not. A message that arrives before the accepting side is ready may wait there
// for the next message, because siw reads it only then (docs/reference/driver-faults.md).
const firstProbe = time.Second

// keepalive probes the peer of an idle connection, so that a peer whose host has vanished
// does not hold the connection for ever. A nil keepalive does nothing.
type keepalive struct {
	conn  *Conn
	timer *time.Timer

	mu      sync.Mutex
	period  time.Duration // 0 if there are no probes
	last    time.Duration // the last period that was not 0
	looking bool          // whether look runs, which sets the timer at its end

	// first is set until the first look on iWARP's active side. Only look uses it.
	first bool
	// active is set by operations that succeed, and cleared by look.
	active atomic.Bool
	// silent is set while this side must not send. On iWARP that is the accepting side, until
	// the first operation or message (RFC 5044, 7.1).
	silent atomic.Bool
}

// startKeepAlive starts to probe an idle connection according to the option KeepAlive. Without
// the option, it does not probe on a QP of the program, or on a send queue whose only entry a
// probe would take.
func (c *Conn) startKeepAlive(option time.Duration) {
	id := c.ep.id
	id.mu.Lock()
	ownQP := id.ownQP
	id.mu.Unlock()
	theirs := !ownQP || c.qp.Cap().SendWR < 2
	// The CQs of a Shared have room for all requests of its QPs.
	c.probes = c.ep.receiving.shared != nil || verbsInternal.OwnsCQs(c.qp) || verbsInternal.Exclusive(c.qp.SendCQ())
	if option < 0 || option == 0 && theirs || !c.probes {
		return
	}
	k := c.keepalive()
	k.last = cmp.Or(option, k.last)
	k.period = k.last
	k.first = id.iwarp() && !id.passive
	first := k.period
	if k.first {
		first = min(first, firstProbe)
	}
	k.timer.Reset(first) // only now look may run
}

// keepalive returns the connection's keepalive. It makes one without probes if there is none.
func (c *Conn) keepalive() *keepalive {
	if k := c.alive.Load(); k != nil {
		return k
	}
	k := &keepalive{conn: c, last: defaultKeepAlive}
	k.silent.Store(c.ep.id.iwarp() && c.ep.id.passive)
	k.timer = time.AfterFunc(time.Hour, k.look)
	k.timer.Stop()
	if !c.alive.CompareAndSwap(nil, k) {
		return c.alive.Load()
	}
	c.ep.idle.Store(k.timer)
	return k
}

// SetKeepAlive changes the time that the connection is idle before its peer is probed, which
// Dialer.KeepAlive describes. 0 means the last time that was set, at first 15 seconds. A negative period ends the
// probes. The error wraps errors.ErrUnsupported if the send CQ has other users, because there are never
// probes then. A connection that has ended ignores the call.
func (c *Conn) SetKeepAlive(period time.Duration) error {
	if period < 0 && c.alive.Load() == nil {
		return nil
	}
	if !c.probes {
		return c.ep.id.opError(opKeepAlive, fmt.Errorf("the send CQ has other users: %w", errors.ErrUnsupported))
	}
	k := c.keepalive()
	k.mu.Lock()
	defer k.mu.Unlock()
	if period < 0 {
		k.period = 0
		k.timer.Stop()
		return nil
	}
	k.last = cmp.Or(period, k.last)
	k.period = k.last
	if !k.looking {
		k.reset()
	}
	return nil
}

// reset sets the timer. The caller holds the lock.
func (k *keepalive) reset() {
	k.timer.Reset(k.period)
	if k.conn.ep.over.Err() != nil { // closed in between
		k.timer.Stop()
	}
}

// look probes the peer if the connection has been idle since the last look. On iWARP's active
// side the first look always probes.
func (k *keepalive) look() {
	k.mu.Lock()
	period := k.period
	if k.looking || period == 0 {
		k.mu.Unlock()
		return
	}
	k.looking = true
	k.mu.Unlock()
	c := k.conn
	idle := !k.active.Swap(false) && !k.silent.Load()
	if idle || k.first {
		k.first = false
		k.probe(max(period, minAnswer))
		k.active.Store(false)
	}
	if c.ep.over.Err() != nil || c.ep.failed() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looking = false
	if k.period > 0 {
		k.reset()
	}
}

// probe sends an empty WRITE, and breaks the connection if the peer does not acknowledge it within limit. The other operations
// report that. While other operations are in flight, the WRITE may wait behind them, such as behind a message for which
// a live peer has no receive. It is then no evidence, and the transport's own retries detect a dead peer.
func (k *keepalive) probe(limit time.Duration) {
	c := k.conn
	q, err := c.admit(opKeepAlive, verbs.OpWrite, 0, verbs.RemoteMemory{})
	if err != nil {
		return
	}
	c.running.Add(1)
	defer c.running.Add(-1)
	p, err := q.Submit(&verbs.SendWR{Opcode: verbs.OpWrite}, nil)
	if err != nil {
		return
	}
	noAnswer := fmt.Errorf("the peer has not acknowledged it within %v: %w", limit, os.ErrDeadlineExceeded)
	for {
		alone := q.Pending() == 1
		ctx, cancel := context.WithTimeoutCause(context.Background(), limit, noAnswer)
		err = p.Wait(ctx)
		late := ctx.Err() != nil
		cancel()
		_, pending := errors.AsType[*inflight.PendingError](err)
		if !pending || !late || alone || c.ep.over.Err() != nil {
			break
		}
	}
	if err != nil {
		_ = c.unfinished(opKeepAlive, p, err)
	}
}

// touch records that an operation has succeeded or a message has arrived.
func (k *keepalive) touch() {
	if k == nil || k.active.Load() {
		return
	}
	k.active.Store(true)
	k.silent.Store(false)
}
