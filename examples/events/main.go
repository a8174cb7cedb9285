// SPDX-License-Identifier: Apache-2.0

// Events connects two IDs in librdmacm's model. One goroutine handles the events of a
// listener, of the connection that it accepts, and of the connecting side.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/events
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"purerdma/cm"
	"purerdma/examples/internal/example"
	"purerdma/verbs"
)

var (
	server = cm.AddrFrom(netip.MustParseAddrPort("10.8.0.1:7471"))
	client = cm.AddrFrom(netip.MustParseAddrPort("10.8.1.2:0"))
)

func main() { example.Main(run) }

type sides struct {
	active, passive   *cm.ID
	established, gone int // of the two
}

func run(ctx context.Context, w io.Writer) error {
	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		return err
	}
	defer ch.Close() // closes every ID on it
	listener, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		return err
	}
	active, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		return err
	}
	if err := errors.Join(listener.Bind(server), listener.Listen(0), active.ResolveAddr(client, server, 2*time.Second)); err != nil {
		return err
	}
	s := &sides{active: active}
	for s.gone < 2 {
		ev, err := ch.Next(ctx)
		if err != nil {
			return err
		}
		if err := s.handle(ctx, ev, w); err != nil {
			return err
		}
		ev.Ack()
	}
	return nil
}

// handle takes the next step for the ID of the event.
func (s *sides) handle(ctx context.Context, ev *cm.Event, w io.Writer) error {
	switch ev.Type {
	case cm.EventAddrResolved:
		return ev.ID.ResolveRoute(2 * time.Second)
	case cm.EventRouteResolved:
		if err := ev.ID.CreateQP(nil, verbs.QPConfig{}); err != nil {
			return err
		}
		return ev.ID.Connect(nil)
	case cm.EventConnectRequest: // ev.ID is new
		s.passive = ev.ID
		if err := ev.ID.CreateQP(nil, verbs.QPConfig{}); err != nil {
			return err
		}
		return ev.ID.Accept(nil)
	case cm.EventEstablished:
		if s.established++; s.established == 2 {
			return s.talk(ctx, w)
		}
		return nil
	case cm.EventDisconnected:
		s.gone++
		return ev.ID.Disconnect() // the answer, if the peer was first
	}
	return ev.Err() // nil for an event that reports no error
}

// talk sends a message from the active to the passive side, and then disconnects.
func (s *sides) talk(ctx context.Context, w io.Writer) error {
	buf, err := s.passive.QP().PD().Alloc(64, verbs.LocalWrite)
	if err != nil {
		return err
	}
	defer buf.Close()
	if _, err := s.passive.QP().PostRecv([]verbs.RecvWR{{SGList: []verbs.SGE{buf.SGE()}}}); err != nil {
		return err
	}
	if _, err := s.active.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, InlineData: []byte("hello")}}); err != nil {
		return err
	}
	var wc [1]verbs.WC
	if _, err := s.passive.QP().RecvCQ().Wait(ctx, wc[:]); err != nil {
		return err
	}
	fmt.Fprintf(w, "received %q\n", buf.Bytes()[:wc[0].ByteLen])
	return s.active.Disconnect()
}
