// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	conn   *Conn
	period time.Duration
	limit  time.Duration // of the peer's answer to a probe
	timer  *time.Timer

	// first is set until the first look on iWARP's active side. Only the timer uses it.
	first bool
	// active is set by operations that succeed, and cleared by the timer.
	active atomic.Bool
	// silent is set while this side must not send. On iWARP that is the accepting side, until
	// the first operation or message (RFC 5044, 7.1).
	silent atomic.Bool
}

// startKeepAlive starts to probe an idle connection according to the option KeepAlive. Without
// the option, it does not probe on a QP of the program, or on a send queue whose only entry a
// probe would take.
func (c *Conn) startKeepAlive(option time.Duration) {
	period := option
	if option == 0 {
		period = defaultKeepAlive
	}
	id := c.ep.id
	id.mu.Lock()
	ownQP := id.ownQP
	id.mu.Unlock()
	theirs := !ownQP || c.qp.Cap().SendWR < 2
	// The CQs of a Shared have room for all requests of its QPs.
	hasRoom := c.ep.receiving.shared != nil || verbsInternal.OwnsCQs(c.qp) || verbsInternal.Exclusive(c.qp.SendCQ())
	if period < 0 || option == 0 && theirs || !hasRoom {
		return
	}
	passive := id.passive
	k := &keepalive{conn: c, period: period, limit: max(period, minAnswer), first: id.iwarp() && !passive}
	k.silent.Store(id.iwarp() && passive)
	c.alive = k
	k.timer = time.AfterFunc(time.Hour, k.look)
	c.ep.idle = k.timer
	if k.first {
		period = min(period, firstProbe)
	}
	k.timer.Reset(period) // only now look may run
}

// look probes the peer if the connection has been idle since the last look. On iWARP's active
// side the first look always probes.
func (k *keepalive) look() {
	c := k.conn
	idle := !k.active.Swap(false) && !k.silent.Load()
	if idle || k.first {
		k.first = false
		k.probe()
		k.active.Store(false)
	}
	if c.ep.over.Err() != nil || c.ep.failed() != nil {
		return
	}
	k.timer.Reset(k.period)
	if c.ep.over.Err() != nil { // closed in between
		k.timer.Stop()
	}
}

// probe sends an empty WRITE, and breaks the connection if the peer does not acknowledge it in time. The other operations
// report that. While other operations are in flight, the WRITE may wait behind them, such as behind a message for which
// a live peer has no receive. It is then no evidence, and the transport's own retries detect a dead peer.
func (k *keepalive) probe() {
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
	noAnswer := fmt.Errorf("the peer has not acknowledged it within %v: %w", k.limit, os.ErrDeadlineExceeded)
	for {
		alone := q.Pending() == 1
		ctx, cancel := context.WithTimeoutCause(context.Background(), k.limit, noAnswer)
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
