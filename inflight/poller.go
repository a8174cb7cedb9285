// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"purerdma/internal/bridge"
	"purerdma/verbs"
)

// Poller makes QPs that share a few CQs and one completion channel. So the completions of many QPs
// wake one goroutine, and many QPs need one file descriptor. Its methods may be called
// concurrently.
//
// A Poller starts no goroutine by itself. As with a CQ of a single QP, one of the goroutines that
// wait for a CQ polls for all of them. If a function takes messages or results and no goroutine
// waits, the CQ has a goroutine of its own.
type Poller struct {
	dev    *verbs.Device
	config PollerConfig

	mu     sync.Mutex // guards the following fields
	ch     *verbs.CompChannel
	cqs    []*sharedCQ
	closed bool
}

// sharedCQ is a CQ and its room.
type sharedCQ struct {
	cq   *verbs.CQ
	room int // entries that are not reserved for a queue
	// qpsOf contains the numbers of QPs on each SRQ whose receives complete on the CQ.
	qpsOf map[*verbs.SRQ]int
}

// DefaultCQEntries is the size of a CQ of a Poller, if the device allows as many.
const DefaultCQEntries = 1 << 15

// PollerConfig configures a Poller. The zero PollerConfig is the default.
type PollerConfig struct {
	// CQEntries is the number of completions that fit into each CQ. 0 means DefaultCQEntries.
	CQEntries int
	// Spin is verbs.CQConfig.Spin of each CQ.
	Spin time.Duration
}

// NewPoller makes a Poller. The caller closes it.
func NewPoller(dev *verbs.Device, cfg PollerConfig) (*Poller, error) {
	limit := dev.Attr().MaxCQE
	switch entries := cfg.CQEntries; {
	case entries == 0:
		cfg.CQEntries = DefaultCQEntries
		if limit > 0 {
			cfg.CQEntries = min(cfg.CQEntries, limit)
		}
	case entries < 0 || limit > 0 && entries > limit:
		return nil, fmt.Errorf("poller on %s: %d completions, the device has at most %d in a CQ: %w", dev.Name(), entries, limit, syscall.EINVAL)
	}
	ch, err := dev.CreateCompChannel()
	if err != nil {
		return nil, err
	}
	return &Poller{dev: dev, config: cfg, ch: ch}, nil
}

// CreateQP makes a QP on a PD of the device. The CQs of cfg must be nil. The caller closes the QP. The
// CQs have room for as many requests as QP.Cap returns. The receives of an SRQ all complete on one CQ. So the
// CQs of a QP on an SRQ may differ.
func (p *Poller) CreateQP(pd *verbs.PD, cfg verbs.QPConfig) (*verbs.QP, error) {
	if cfg.SendCQ != nil || cfg.RecvCQ != nil {
		return nil, fmt.Errorf("QP of a poller on %s: it has CQs of its own: %w", p.dev.Name(), syscall.EINVAL)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("QP of a poller on %s: %w", p.dev.Name(), net.ErrClosed)
	}
	var recv *sharedCQ
	if cfg.SRQ != nil {
		var err error
		if recv, err = p.receivesOf(cfg.SRQ); err != nil {
			return nil, err
		}
		defer recv.dropUnused(cfg.SRQ) // if no QP was made
	}
	// The capacities of the QP are known when it exists. So try the CQs, the newest first, and then a
	// new one.
	for i := len(p.cqs) - 1; ; i-- {
		fresh := i < 0
		var c *sharedCQ
		if fresh {
			var err error
			if c, err = p.addCQ(); err != nil {
				return nil, err
			}
		} else if c = p.cqs[i]; c.room < need(cfg.Cap, cfg.SRQ) {
			continue
		}
		u := usage{send: c, recv: cmp.Or(recv, c)}
		cfg.SendCQ, cfg.RecvCQ = u.send.cq, u.recv.cq
		qp, err := pd.CreateQP(cfg)
		if err != nil {
			return nil, err
		}
		n := need(qp.Cap(), qp.SRQ())
		if c.room >= n {
			c.room -= n
			if qp.SRQ() != nil {
				u.recv.qpsOf[qp.SRQ()]++
			}
			internals.Watch(qp, bridge.Watch{Closed: func() { p.free(u, qp) }})
			return qp, nil
		}
		if err := qp.Close(); err != nil {
			return nil, err
		}
		if fresh {
			return nil, p.tooMany(n, "requests")
		}
	}
}

func (p *Poller) tooMany(n int, what string) error {
	return fmt.Errorf("QP of a poller on %s: %d %s, and %d completions fit into a CQ: %w", p.dev.Name(), n, what, p.config.CQEntries, syscall.EINVAL)
}

// addCQ makes a further CQ. The caller holds the lock.
func (p *Poller) addCQ() (*sharedCQ, error) {
	cq, err := p.dev.CreateCQ(verbs.CQConfig{Entries: p.config.CQEntries, Channel: p.ch, Spin: p.config.Spin})
	if err != nil {
		return nil, err
	}
	hubOf(cq) // so that the CQ keeps no completions of QPs that were closed
	c := &sharedCQ{cq: cq, room: cq.Entries(), qpsOf: map[*verbs.SRQ]int{}}
	p.cqs = append(p.cqs, c)
	return c, nil
}

// usage has the CQs of a QP.
type usage struct{ send, recv *sharedCQ }

// receivesOf returns the CQ of all receives of an SRQ, which has room for them. On several CQs they would
// need the same room on each. The caller holds the lock.
func (p *Poller) receivesOf(srq *verbs.SRQ) (c *sharedCQ, err error) {
	n := srq.Attr().MaxWR
	for _, o := range p.cqs {
		if _, ok := o.qpsOf[srq]; ok {
			return o, nil
		}
		if o.room >= n {
			c = o
		}
	}
	if c == nil {
		if c, err = p.addCQ(); err != nil {
			return nil, err
		}
	}
	if c.room < n {
		return nil, p.tooMany(n, "receives of an SRQ")
	}
	c.room -= n
	c.qpsOf[srq] = 0
	return c, nil
}

// dropUnused returns the room of an SRQ that no QP uses.
func (c *sharedCQ) dropUnused(srq *verbs.SRQ) {
	if n, ok := c.qpsOf[srq]; ok && n == 0 {
		delete(c.qpsOf, srq)
		c.room += srq.Attr().MaxWR
	}
}

// need returns the number of completions that a QP may cause on its send CQ.
func need(caps verbs.QPCap, srq *verbs.SRQ) int {
	if srq != nil {
		return caps.SendWR
	}
	return caps.SendWR + caps.RecvWR
}

// free returns the room of a QP that was closed.
func (p *Poller) free(u usage, qp *verbs.QP) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u.send.room += need(qp.Cap(), qp.SRQ())
	if srq := qp.SRQ(); srq != nil {
		u.recv.qpsOf[srq]--
		u.recv.dropUnused(srq)
	}
}

// Close closes the CQs, each at once or with the last QP on it. Close may be called more than once. After
// an error it tries again.
func (p *Poller) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, c := range p.cqs {
		errs = append(errs, c.cq.Close())
	}
	return errors.Join(append(errs, p.ch.Close())...)
}
