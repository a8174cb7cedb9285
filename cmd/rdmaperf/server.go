// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"purerdma/verbs"
)

// Time limits of a server.
const (
	settleTime = 5 * time.Second  // for sent data to arrive
	handTime   = 30 * time.Second // for a client to send its plan and to connect
)

// server serves one client.
type server struct {
	way serverWay
	end *end
}

// serverWay is the connection to the client. It connects the QPs.
type serverWay interface {
	control
	memory() (*verbs.Device, *verbs.PD)
	agree(*plan) error
	// accept creates the next QP of an end and connects it to the client's QP. The token was
	// sent to the client.
	accept(ctx context.Context, e *end, token uint64) error
}

var errNoPlan = errors.New("the client has sent no plan")

// serve waits for a client and runs its plan. It passes the address and port to listening.
func serve(ctx context.Context, o *options, listening func(addr string, port int)) error {
	take := acceptTCP
	if o.CM {
		take = acceptCM
	}
	way, err := take(ctx, o, listening)
	if err != nil {
		return err
	}
	defer way.close()
	s := &server{way: way}
	hctx, cancel := context.WithTimeout(ctx, handTime)
	err = s.setUp(hctx)
	cancel()
	if s.end != nil {
		defer s.end.close()
	}
	for err == nil {
		var m message
		m, err = s.way.receive(ctx)
		if err != nil || m.Size == 0 {
			break
		}
		err = s.size(ctx, m.Size)
	}
	if err != nil {
		s.sendError(ctx, err)
	}
	return err
}

// sendError sends the reason for the server's end to the client. The client ends with or without
// that message. The server does not wait for a client that stays connected without receiving
// it.
func (s *server) sendError(ctx context.Context, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	s.way.send(ctx, message{Error: err.Error()})
}

// setUp creates the objects for the client's plan and accepts its connections.
func (s *server) setUp(ctx context.Context) error {
	m, err := s.way.receive(ctx)
	if err != nil {
		return err
	}
	if m.Plan == nil {
		return errNoPlan
	}
	p := *m.Plan
	if err = p.understand(); err == nil {
		err = p.check()
	}
	if err == nil {
		err = s.way.agree(&p)
	}
	if err != nil {
		return fmt.Errorf("the client's plan: %w", err)
	}
	dev, pd := s.way.memory()
	if s.end, err = newEnd(p, dev, pd, false); err != nil {
		return err
	}
	// The first byte distinguishes it from a control connection.
	token := rand.Uint64() | 1<<63
	if err := s.way.send(ctx, message{Plan: &p, Memory: s.end.mr.Remote(), Token: token}); err != nil {
		return err
	}
	for i := range p.QPs {
		if err := s.way.accept(ctx, s.end, token); err != nil {
			return fmt.Errorf("QP %d: %w", i, err)
		}
	}
	// The client's memory is the target of the answers.
	if m, err = s.way.receive(ctx); err != nil {
		return err
	}
	if err := s.end.use(m.Memory); err != nil {
		return err
	}
	return s.way.send(ctx, message{})
}

// size serves one size until the client has sent all messages.
func (s *server) size(ctx context.Context, size int) error {
	e := s.end
	if err := e.checkSize(size); err != nil {
		return fmt.Errorf("the client: %w", err)
	}
	for _, l := range e.lanes {
		l.received, l.bytes = 0, 0
		clear(e.incomingBytes(l, size))
		if e.Verify || e.kind.opcode == verbs.OpRead {
			fill(l.out[:size], seedServer)
		}
	}
	e.target.Store(0)
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer e.breakAtEnd(run)()
	defer e.watchLoss(run, cancel)()
	if err := s.way.send(ctx, message{}); err != nil {
		return err
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		if err := s.awaitSent(run); err != nil {
			cancel(err)
		}
	}()
	err := e.play(run, size)
	if err != nil {
		cancel(err)
	}
	<-heard
	if run.Err() != nil {
		return context.Cause(run)
	}
	answer, err := s.countReceived(size)
	if err != nil {
		return err
	}
	return s.way.send(ctx, answer)
}

// awaitSent waits until the client reports that it has sent all messages. If the server receives
// messages, the last ones follow that report and wake it.
func (s *server) awaitSent(ctx context.Context) error {
	m, err := s.way.receive(ctx)
	if err != nil {
		return err
	}
	if m.Sent == 0 {
		return errors.New("the client has sent nothing")
	}
	s.end.target.Store(m.Sent)
	if !s.end.kind.active() {
		return nil
	}
	return s.way.send(ctx, message{})
}

// play receives messages, and answers them, until all have arrived. It does nothing if only the
// client is active.
func (e *end) play(ctx context.Context, size int) error {
	switch {
	case e.kind.echo:
		return e.answer(ctx, size)
	case e.kind.active():
		e.received = e.takeMessage
		for !e.complete() {
			if err := e.next(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// countReceived counts the received messages and checks the memory. It retries for a while, because a
// WRITE of iWARP completes before it arrives.
func (s *server) countReceived(size int) (message, error) {
	e := s.end
	var m message
	for _, l := range e.lanes {
		m.Messages += l.received
		m.Bytes += l.bytes
	}
	deadline := time.Now().Add(settleTime)
	for {
		err := s.checkMemory(size, e.target.Load())
		if err == nil || time.Now().After(deadline) {
			return m, err
		}
		time.Sleep(time.Millisecond)
	}
}

// checkMemory checks the memory that the client has changed.
func (s *server) checkMemory(size int, sent uint64) error {
	e := s.end
	switch {
	case e.kind.opcode == verbs.OpFetchAdd:
		var sum uint64
		for _, l := range e.lanes {
			sum += binary.NativeEndian.Uint64(e.incomingBytes(l, size))
		}
		if sum != sent {
			return fmt.Errorf("%d atomics have added %d in total", sent, sum)
		}
	case e.Verify && e.kind.opcode != verbs.OpRead:
		return e.verify(size, seedClient)
	}
	return nil
}

// verify compares the received data with the other side's pattern.
func (e *end) verify(size, seed int) error {
	for _, l := range e.lanes {
		in := e.incomingBytes(l, size)
		if e.kind.echo && e.kind.opcode == verbs.OpWrite {
			in = in[:size-1] // the last byte is the mark
		}
		if err := differs(in, seed); err != nil {
			return fmt.Errorf("QP %d: %w", l.index, err)
		}
	}
	return nil
}

func (e *end) incomingBytes(l *lane, size int) []byte {
	return e.mr.Bytes()[e.incoming(l.index)+e.head():][:size]
}
