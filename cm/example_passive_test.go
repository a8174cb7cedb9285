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

// serveEvents is a server with the calls of librdmacm. One goroutine handles the events of the
// listener and of all its connections. It echoes one message of each connection. It finds the
// session of a connection by the ID.
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
		case cm.EventConnectRequest: // ev.ID is new, ev.Listener is the listener
			if s, err = accept(ev.ID); err != nil {
				log.Print(err)
				hangUp(ev.ID, s) // rejects the peer
				break
			}
			sessions[ev.ID] = s
		case cm.EventEstablished:
			s.echo.Go(func() { s.echoOne(ctx, ev.ID.QP()) })
		case cm.EventDisconnected:
			ev.ID.Disconnect() // the answer that the peer waits for
			hangUp(ev.ID, s)
			delete(sessions, ev.ID)
		case cm.EventConnectError, cm.EventUnreachable, cm.EventRejected:
			// On an established ID, UNREACHABLE is only a hint.
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

// session holds a connection's objects other than its ID and QP.
type session struct {
	buf  *verbs.MR
	echo sync.WaitGroup
}

// accept creates the objects of a connection, posts a receive before the peer can send, and
// accepts. ESTABLISHED comes after the peer has confirmed. If accept cannot allocate memory,
// the session is nil.
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

// hangUp closes an ID and its QP, which ends the waits on its CQs. It then closes the memory
// of the QP.
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

// This example is the passive side with the calls of librdmacm.
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
	if err := listener.Bind(cm.AddrFrom(netip.MustParseAddrPort("[::]:7471"))); err != nil { // on every device
		log.Fatal(err)
	}
	if err := listener.Listen(0); err != nil {
		log.Fatal(err)
	}
	if err := serveEvents(context.Background(), ch); err != nil {
		log.Fatal(err)
	}
}
