// SPDX-License-Identifier: Apache-2.0

package cm_test

import (
	"context"
	"log"
	"net/netip"
	"sync"

	"purerdma/cm"
	"purerdma/verbs"
)

// serveEvents is a server in the librdmacm model: one goroutine takes the events of
// the listener and of all its connections. It echoes one message of each. It finds what belongs
// to a connection by the ID.
func serveEvents(ctx context.Context, ch *cm.EventChannel) error {
	sessions := map[*cm.ID]*session{}
	defer func() {
		for id, s := range sessions {
			hangUp(id, s)
		}
	}()
	for ev, err := range ch.Events(ctx) {
		if err != nil {
			return err
		}
		s := sessions[ev.ID]
		switch ev.Type {
		case cm.EventConnectRequest: // ev.ID is new, ev.Listener was asked
			if s, err = accept(ev.ID); err != nil {
				log.Print(err)
				hangUp(ev.ID, s) // refuses the peer
				break
			}
			sessions[ev.ID] = s
		case cm.EventEstablished:
			s.echo.Go(func() { s.echoOne(ctx, ev.ID.QP()) })
		case cm.EventDisconnected:
			ev.ID.Disconnect() // the answer, for which the peer waits
			hangUp(ev.ID, s)
			delete(sessions, ev.ID)
		case cm.EventConnectError, cm.EventUnreachable, cm.EventRejected:
			// On an established ID, UNREACHABLE is a mere hint.
			if ev.ID.State() == cm.StateFailed {
				log.Print(ev.Err())
				hangUp(ev.ID, s)
				delete(sessions, ev.ID)
			}
		case cm.EventDeviceRemoval:
			log.Print(ev.Err())
			hangUp(ev.ID, s)
			delete(sessions, ev.ID)
		}
		ev.Ack()
	}
	return nil
}

// session is what a connection of the server has beside its ID and QP.
type session struct {
	buf  *verbs.MR
	echo sync.WaitGroup
}

// accept makes what the connection needs, posts a receive before the peer can send,
// and accepts. ESTABLISHED comes when the peer has confirmed. The session is nil if it has no
// memory.
func accept(id *cm.ID) (*session, error) {
	if err := id.CreateQP(nil, verbs.QPConfig{}); err != nil {
		return nil, err
	}
	buf, err := id.QP().PD().Alloc(4096, verbs.LocalWrite)
	if err != nil {
		return nil, err
	}
	s := &session{buf: buf}
	if _, err := id.QP().PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{buf.SGE()}}}); err != nil {
		return s, err
	}
	return s, id.Accept(nil)
}

// hangUp closes an ID, its QP with it, which ends the waits on its CQs, and then the
// memory that the QP had.
func hangUp(id *cm.ID, s *session) {
	id.Close()
	if s != nil {
		s.echo.Wait()
		s.buf.Close()
	}
}

// echoOne sends one message back.
func (s *session) echoOne(ctx context.Context, qp *verbs.QP) {
	var wc [1]verbs.WC
	if n, err := qp.RecvCQ().Wait(ctx, wc[:]); n == 0 || err != nil || wc[0].Err() != nil {
		return
	}
	wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{s.buf.Slice(0, int(wc[0].ByteLen))}}
	if _, err := qp.PostSend([]verbs.SendWR{wr}); err == nil {
		qp.SendCQ().Wait(ctx, wc[:])
	}
}

// The passive side of the librdmacm model.
func ExampleID_Listen() {
	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer ch.Close() // and every ID on it
	listener, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		log.Fatal(err)
	}
	if err := listener.Bind(cm.AddrFrom(netip.MustParseAddrPort("[::]:7471"))); err != nil { // every device
		log.Fatal(err)
	}
	if err := listener.Listen(0); err != nil {
		log.Fatal(err)
	}
	if err := serveEvents(context.Background(), ch); err != nil {
		log.Fatal(err)
	}
}
