// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"

	"purerdma/pool"
	"purerdma/verbs"
)

// SharedReceives are receives on an SRQ, for the messages of many QPs. An idle QP takes no memory for
// receives. Its methods may be called concurrently.
//
// All QPs are on the PD of the pool. A peer reaches the memory of others only if it has remote
// rights: see verbs.PD.RefuseRemote.
type SharedReceives struct {
	rq      *receives
	srq     *verbs.SRQ
	maxHeld int
}

// NewSharedReceives makes an SRQ on the PD of a pool, takes the memory of cfg.Depth receives from the
// pool, and posts them. The caller closes it.
func NewSharedReceives(p *pool.Pool, cfg ReceiveConfig) (*SharedReceives, error) {
	depth := cmp.Or(cfg.Depth, DefaultDepth)
	rq, err := newReceives(p, cfg, depth)
	if err != nil {
		return nil, fmt.Errorf("shared receives: %w", err)
	}
	s := &SharedReceives{rq: rq, maxHeld: cmp.Or(cfg.MaxHeld, max(1, depth/2))}
	s.srq, err = p.PD().CreateSRQ(verbs.SRQConfig{MaxWR: depth, MaxSGE: 1, Dropped: rq.drop})
	if err != nil {
		rq.release()
		return nil, err
	}
	internals.OnRelease(s.srq, rq.release)
	if _, ok := internals.Unused(s.srq); ok {
		rq.order = &takenOrder{of: make([]uint64, depth), unused: func() int {
			n, _ := internals.Unused(s.srq)
			return n
		}}
	}
	if err := rq.open(s.srq); err != nil {
		return nil, errors.Join(fmt.Errorf("shared receives: %w", err), s.srq.Close())
	}
	return s, nil
}

// SRQ returns the shared receive queue, for verbs.QPConfig. The program must not post to it.
func (s *SharedReceives) SRQ() *verbs.SRQ { return s.srq }

// Receiver returns a Receiver for the messages of a QP on the SRQ. It must be made before the first
// message can arrive, which is dropped otherwise.
func (s *SharedReceives) Receiver(qp *verbs.QP) (*Receiver, error) {
	if qp.SRQ() != s.srq {
		return nil, fmt.Errorf("receives of %v: it is not on the SRQ: %w", qp, syscall.EINVAL)
	}
	return newReceiver(qp, s.rq, true, s.maxHeld)
}

// Close closes the SRQ, at once or with the last of its QPs. The memory goes back to the pool then.
// Messages stay valid until they are freed. Close may be called more than once. After an error it tries
// again.
func (s *SharedReceives) Close() error {
	s.rq.stop()
	return s.srq.Close()
}
