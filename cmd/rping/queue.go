// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// queue is what a session has posted to its QP's send queue. The work requests
// are built in it: pings allocate nothing.
type queue struct {
	posted, done uint64 // numbers of work requests
	wr           [1]verbs.SendWR
	sg           [1]verbs.SGE
	wc           [1]verbs.WC
}

// post posts a work request on local memory, and the peer's if it is a READ or
// WRITE.
func (s *session) post(op verbs.SendOpcode, local verbs.SGE, remote info) error {
	q := &s.queue
	q.sg[0] = local
	q.wr[0] = verbs.SendWR{
		ID: q.posted + 1, Opcode: op, Flags: verbs.SendSignaled, SGList: q.sg[:],
		RemoteAddr: remote.addr, RKey: remote.rkey,
	}
	if _, err := s.qp.PostSend(q.wr[:]); err != nil {
		return s.conn.Explain(err)
	}
	q.posted++
	return nil
}

// drain waits until all that was posted has completed, and its memory is ours
// again.
func (s *session) drain() error {
	for s.queue.done < s.queue.posted {
		wc, err := s.completion(s.qp.SendCQ())
		if err != nil {
			return err
		}
		s.queue.done = wc.ID
		switch wc.Opcode {
		case verbs.WCSend:
			s.u.debugf("send completion\n")
		case verbs.WCRead:
			s.u.debugf("rdma read completion\n")
		case verbs.WCWrite:
			s.u.debugf("rdma write completion\n")
		}
	}
	return nil
}

// completion waits for a completion, or for the end of the connection. What came
// before the end comes first.
func (s *session) completion(cq *verbs.CQ) (*verbs.WC, error) {
	wc := &s.queue.wc[0]
	if _, err := cq.Wait(s.ctx, s.queue.wc[:]); err != nil {
		select {
		case <-s.conn.Done():
			return nil, s.ended()
		default:
			return nil, err
		}
	}
	err := wc.Err()
	switch {
	case err == nil:
		return wc, nil
	case wc.Status == verbs.WCWRFlushErr && s.ending():
		return nil, s.ended()
	case wc.Status == verbs.WCWRFlushErr:
		err = s.cause(err)
	}
	return nil, s.conn.Explain(err)
}

// cause returns why something was flushed though the connection stands: a request
// that failed, of either queue, and nobody has waited for. It completes before all that
// is flushed.
func (s *session) cause(flush error) error {
	wc := &s.queue.wc[0]
	for _, cq := range []*verbs.CQ{s.qp.SendCQ(), s.qp.RecvCQ()} {
		for {
			if n, err := cq.Poll(s.queue.wc[:1]); n == 0 || err != nil {
				break
			}
			if err := wc.Err(); err != nil && wc.Status != verbs.WCWRFlushErr {
				return err
			}
		}
	}
	return flush
}

// ending reports whether the connection is known to have ended: that flushes the
// QP, a moment before Done says it. On iWARP the kernel flushes, and the event is
// on its way.
func (s *session) ending() bool {
	if s.pd.Device().Transport() == verbs.TransportIWARP {
		select {
		case <-s.conn.Done():
		case <-time.After(time.Second):
		}
	}
	state := s.conn.ID().State()
	return state == cm.StateDisconnected || state == cm.StateRemoved
}

// ended says how the connection has ended, or is about to.
func (s *session) ended() error {
	end, err := s.conn.Wait(context.Background())
	switch {
	case err != nil:
		return err
	case end.Event == cm.EventDeviceRemoval:
		return s.conn.Explain(&verbs.DeviceRemovedError{Device: s.pd.Device().Name()})
	}
	return s.conn.Explain(&cm.DisconnectedError{Status: end.Status})
}

// waiting turns the end of the connection into a *disconnectedError.
func waiting(want state, err error) error {
	if peerGone(err) {
		return &disconnectedError{waiting: want}
	}
	return err
}

// peerGone reports whether an operation failed because the peer disconnected.
func peerGone(err error) bool {
	_, gone := errors.AsType[*cm.DisconnectedError](err)
	return gone
}
