// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// Times that a server gives.
const (
	settleTime = 5 * time.Second  // for data to come that was sent
	handTime   = 30 * time.Second // for a client to say what it wants, and to connect
)

// server serves one client.
type server struct {
	ln  *cm.Listener
	ctl control
	end *end
}

// serve waits for a client and does what that asks for. listening is told the
// address.
func serve(ctx context.Context, o *options, listening func(cm.Addr)) error {
	network := "tcp"
	if o.source == "" {
		network = "tcp4" // iWARP's wildcard of IPv6 takes no IPv4
	}
	ln, err := cm.Listen(ctx, network, net.JoinHostPort(o.source, strconv.Itoa(o.port)))
	if err != nil {
		return err
	}
	defer ln.Close()
	listening(ln.Addr())
	s := &server{ln: ln}
	if err := s.greet(ctx); err != nil {
		return err
	}
	defer s.ctl.close()
	hctx, cancel := context.WithTimeout(ctx, handTime)
	err = s.setUp(hctx)
	cancel()
	if s.end != nil {
		defer s.end.close()
	}
	for err == nil {
		var m message
		m, err = s.ctl.receive(ctx)
		if err != nil || m.Size == 0 {
			break
		}
		err = s.size(ctx, m.Size)
	}
	if err != nil {
		// The client ends, too, whether it hears why or not.
		s.ctl.send(ctx, message{Error: err.Error()})
	}
	return err
}

// greet accepts the connection of control; others are refused.
func (s *server) greet(ctx context.Context) error {
	for {
		req, err := s.ln.Accept(ctx)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(req.PrivateData(), []byte(magic+"\x00")) {
			req.Reject(nil)
			continue
		}
		if err := s.ctl.prepare(req); err != nil {
			req.Close()
			return err
		}
		if s.ctl.conn, err = req.Accept(ctx, nil, nil); err != nil {
			s.ctl.close()
			return err
		}
		return nil
	}
}

// setUp makes what the client's plan needs, and takes its connections.
func (s *server) setUp(ctx context.Context) error {
	m, err := s.ctl.receive(ctx)
	if err != nil {
		return err
	}
	if m.Plan == nil {
		return errors.New("the client has no plan")
	}
	p := *m.Plan
	if p.kind, err = parseKind(p.Test); err == nil {
		err = p.check()
	}
	if err != nil {
		return fmt.Errorf("the client's plan: %w", err)
	}
	conn := s.ctl.conn
	if s.end, err = newEnd(p, conn.Device(), conn.PD(), false); err != nil {
		return err
	}
	// The first byte tells it from a connection of control.
	token := rand.Uint64() | 1<<63
	if err := s.ctl.send(ctx, message{Addr: s.end.mr.Addr(), RKey: s.end.mr.RKey(), Token: token}); err != nil {
		return err
	}
	want := binary.BigEndian.AppendUint64([]byte(magic), token)
	for len(s.end.lanes) < p.QPs {
		req, err := s.ln.Accept(ctx)
		if err != nil {
			return err
		}
		if err := s.take(ctx, req, want); err != nil {
			return err
		}
	}
	// The client's memory, which the answers go to.
	if m, err = s.ctl.receive(ctx); err != nil {
		return err
	}
	for _, l := range s.end.lanes {
		l.remote, l.rkey = m.Addr+uint64(p.incoming(l.index)), m.RKey
	}
	return s.ctl.send(ctx, message{})
}

// take accepts the next connection, if it is the client's: these come one after
// the other.
func (s *server) take(ctx context.Context, req *cm.Request, want []byte) error {
	if !bytes.HasPrefix(req.PrivateData(), want) {
		return req.Reject(nil)
	}
	defer req.Close()
	l, err := s.end.newLane(req)
	if err != nil {
		return err
	}
	l.conn, err = req.Accept(ctx, l.qp, nil)
	return err
}

// size serves one size: until the client says that it has sent all.
func (s *server) size(ctx context.Context, size int) error {
	e := s.end
	if size < 1 || size > e.Max {
		return fmt.Errorf("the client wants %d bytes in memory for %d", size, e.Max)
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
	if err := s.ctl.send(ctx, message{}); err != nil {
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
	return s.ctl.send(ctx, answer)
}

// hear waits until the client has sent all. Where it is the server's to take
// messages, the last ones come after that, and wake it.
func (s *server) hear(ctx context.Context) error {
	m, err := s.ctl.receive(ctx)
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
	return s.ctl.send(ctx, message{})
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
	return e.mr.Bytes()[e.incoming(l.index):][:size]
}
