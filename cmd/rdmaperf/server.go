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

// Times that a server gives.
const (
	settleTime = 5 * time.Second  // for data to come that was sent
	handTime   = 30 * time.Second // for a client to say what it wants, and to connect
)

// server serves one client.
type server struct {
	way serverWay
	end *end
}

// serverWay is how a client has reached the server, and connects its QPs.
type serverWay interface {
	control
	memory() (*verbs.Device, *verbs.PD)
	agree(*plan) error
	// accept makes the next QP of an end, and connects it to the client's. The token
	// is the one that the client has been told.
	accept(ctx context.Context, e *end, token uint64) error
}

var errNoPlan = errors.New("the client has no plan")

// serve waits for a client and does what that asks for. listening is told the
// port.
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
		s.farewell(ctx, err)
	}
	return err
}

// farewell tells the client why the server ends. The client ends, too, whether it hears
// that or not; one that listens no more, and stays connected, is not waited for.
func (s *server) farewell(ctx context.Context, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	s.way.send(ctx, message{Error: err.Error()})
}

// setUp makes what the client's plan needs, and takes its connections.
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
	// The first byte tells it from a connection of control.
	token := rand.Uint64() | 1<<63
	if err := s.way.send(ctx, message{Plan: &p, Memory: s.end.mr.Remote(), Token: token}); err != nil {
		return err
	}
	for i := range p.QPs {
		if err := s.way.accept(ctx, s.end, token); err != nil {
			return fmt.Errorf("QP %d: %w", i, err)
		}
	}
	// The client's memory, which the answers go to.
	if m, err = s.way.receive(ctx); err != nil {
		return err
	}
	if err := s.end.use(m.Memory); err != nil {
		return err
	}
	return s.way.send(ctx, message{})
}

// size serves one size: until the client says that it has sent all.
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
		if err := s.hear(run); err != nil {
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
	answer, err := s.judge(size)
	if err != nil {
		return err
	}
	return s.way.send(ctx, answer)
}

// hear waits until the client has sent all. Where it is the server's to take
// messages, the last ones come after that, and wake it.
func (s *server) hear(ctx context.Context) error {
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

// play takes messages, and answers them, until all have come. Where only the
// client does something there is nothing to do.
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

// judge says what has come, and looks at the memory. A WRITE of iWARP is complete
// before it has arrived, so that it gets a while.
func (s *server) judge(size int) (message, error) {
	e := s.end
	var m message
	for _, l := range e.lanes {
		m.Messages += l.received
		m.Bytes += l.bytes
	}
	deadline := time.Now().Add(settleTime)
	for {
		err := s.look(size, e.target.Load())
		if err == nil || time.Now().After(deadline) {
			return m, err
		}
		time.Sleep(time.Millisecond)
	}
}

// look looks at the memory that the client has changed.
func (s *server) look(size int, sent uint64) error {
	e := s.end
	switch {
	case e.kind.opcode == verbs.OpFetchAdd:
		var sum uint64
		for _, l := range e.lanes {
			sum += binary.NativeEndian.Uint64(e.incomingBytes(l, size))
		}
		if sum != sent {
			return fmt.Errorf("%d atomics have added %d", sent, sum)
		}
	case e.Verify && e.kind.opcode != verbs.OpRead:
		return e.verify(size, seedClient)
	}
	return nil
}

// verify looks for the other side's pattern in what has come in.
func (e *end) verify(size, seed int) error {
	for _, l := range e.lanes {
		in := e.incomingBytes(l, size)
		if e.kind.echo && e.kind.opcode == verbs.OpWrite {
			in = in[:size-1] // the last byte is the round
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
