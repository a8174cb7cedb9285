// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"purerdma/verbs"
)

// Sizes of the queues in the C program.
const (
	sendDepth = 16
	recvDepth = 2
)

// disconnectGrace is the time that the client waits for the server's answer to its disconnect.
const disconnectGrace = 3 * time.Second

// state is the state that a side waits for, with the numbers of enum test_state in the C
// program, which prints them.
type state int

const (
	readAdv       state = 6
	readComplete  state = 7
	writeAdv      state = 8
	writeComplete state = 9
	disconnected  state = 10
)

func (s state) String() string {
	switch s {
	case readAdv:
		return "RDMA_READ_ADV"
	case readComplete:
		return "RDMA_READ_COMPLETE"
	case writeAdv:
		return "RDMA_WRITE_ADV"
	case writeComplete:
		return "RDMA_WRITE_COMPLETE"
	}
	return fmt.Sprintf("state %d", int(s))
}

// disconnectedError reports that the peer has disconnected, with the state that this side was
// waiting for.
type disconnectedError struct{ waiting state }

func (e *disconnectedError) Error() string {
	return fmt.Sprintf("wait for %v state %d", e.waiting, int(disconnected))
}

// session is one connection with its resources. Every connection has its own protection domain,
// so that no client of a server can access the memory of another client.
type session struct {
	opt *options
	u   *printer

	pd    *verbs.PD
	qp    *verbs.QP
	ctrl  *verbs.MR // the received message, then the sent message
	data  *verbs.MR // the server's copy of the data, or the client's target of the server's writes
	start *verbs.MR // the client's source of the server's reads
	conn  conn

	buffers bool // whether all of them are registered

	// ctx ends with the connection, whichever side ends it.
	ctx    context.Context
	cancel context.CancelFunc
	queue  queue
}

// open establishes a pending connection. First it creates all resources that the peer's first
// message needs.
func open(ctx context.Context, opt *options, u *printer, p pending) (*session, error) {
	s := &session{opt: opt, u: u}
	if err := s.setup(p); err != nil {
		p.Close()
		s.close()
		return nil, err
	}
	if opt.server {
		u.debugf("accepting client connection request\n")
	}
	c, err := p.finish(ctx, s.qp)
	if err != nil {
		s.close()
		return nil, err
	}
	s.conn = c
	s.ctx, s.cancel = context.WithCancel(ctx)
	go func() {
		select {
		case <-c.Done():
			s.cancel()
		case <-s.ctx.Done():
		}
	}()
	return s, nil
}

func (s *session) setup(p pending) error {
	dev := p.Device()
	var err error
	if s.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	s.u.debugf("created pd %p\n", s.pd)
	s.qp, err = s.pd.CreateQP(verbs.QPConfig{
		Type: verbs.RC,
		Cap:  verbs.QPCap{SendWR: sendDepth, RecvWR: recvDepth, SendSGE: 1, RecvSGE: 1},
	})
	if err != nil {
		return err
	}
	s.u.debugf("created qp %p\n", s.qp)
	if err := p.Init(s.qp); err != nil {
		return err
	}
	s.u.debugf("rping_setup_buffers called on cb %p\n", s)
	if err := s.register(dev.Features().ReadNeedsRemoteWrite); err != nil {
		return err
	}
	s.buffers = true
	s.u.debugf("allocated & registered buffers...\n")
	return s.postRecv()
}

// register registers the buffers with only the rights that the protocol needs. If readIsWrite is
// set, the answer to a READ is a write by the peer, as on iWARP.
func (s *session) register(readIsWrite bool) (err error) {
	if s.ctrl, err = s.pd.Alloc(2*infoSize, verbs.LocalWrite); err != nil {
		return err
	}
	access := verbs.LocalWrite
	if !s.opt.server || readIsWrite {
		access |= verbs.RemoteWrite
	}
	if s.data, err = s.pd.Alloc(s.opt.size, access); err != nil || s.opt.server {
		return err
	}
	s.start, err = s.pd.Alloc(s.opt.size, verbs.RemoteRead)
	return err
}

// postRecv posts the receive for the peer's next message.
func (s *session) postRecv() error {
	_, err := s.qp.PostRecv([]verbs.RecvWR{{SGList: []verbs.SGE{s.ctrl.Slice(0, infoSize)}}})
	return err
}

// receive waits for the peer's next message. If the peer has disconnected, it returns a
// *disconnectedError with the awaited state.
func (s *session) receive(want state) (info, error) {
	wc, err := s.completion(s.qp.RecvCQ())
	if err != nil {
		return info{}, waiting(want, err)
	}
	s.u.debugf("recv completion\n")
	if wc.ByteLen != infoSize {
		return info{}, &bogusMessageError{size: wc.ByteLen}
	}
	msg := decodeInfo(s.ctrl.Bytes())
	return msg, s.postRecv()
}

// send sends a message and does not wait for its completion. The peer's answer or its
// disconnect follows.
func (s *session) send(msg info) error {
	err := s.drain() // wait for the previous message
	if err == nil {
		msg.encode(s.ctrl.Bytes()[infoSize:])
		err = s.post(verbs.OpSend, s.ctrl.Slice(infoSize, infoSize), info{})
	}
	if peerGone(err) {
		return nil
	}
	return err
}

// close releases everything. It closes the connection first, so that the device no longer uses
// the session's memory.
func (s *session) close() error {
	var errs []error
	if s.conn != nil {
		s.cancel()
		errs = append(errs, s.conn.Close())
	}
	if s.qp != nil {
		errs = append(errs, s.qp.Close())
	}
	if s.buffers {
		s.u.debugf("rping_free_buffers called on cb %p\n", s)
	}
	for _, mr := range []*verbs.MR{s.ctrl, s.data, s.start} {
		if mr != nil {
			errs = append(errs, mr.Close())
		}
	}
	if s.pd != nil {
		errs = append(errs, s.pd.Close())
	}
	return errors.Join(errs...)
}
