// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// queue tracks the work requests posted to a session's send queue. It also contains their
// memory, so that pings do not allocate.
type queue struct {
	posted, done uint64 // numbers of work requests
	wr           [1]verbs.SendWR
	sg           [1]verbs.SGE
	wc           [1]verbs.WC
}

// post posts a work request on local memory, and on the peer's memory for a READ or WRITE.
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

// drain waits until all posted requests have completed and their memory can be reused.
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

// completion waits for a completion or for the end of the connection. It returns completions
// from before the end first.
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

// cause returns the cause of a flush on a connection that has not ended. The cause is a failed
// request of either queue whose completion has not been polled. It completes before all flushed
// requests.
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

// ending reports whether the connection has ended or is about to. The end flushes the QP
// shortly before Done is closed. On iWARP the kernel flushes before the event arrives.
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

// ended returns the error with which the connection has ended or is about to end.
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

// waiting converts the end of the connection into a *disconnectedError.
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
