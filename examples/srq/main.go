// SPDX-License-Identifier: Apache-2.0

// Srq serves several connections with one shared receive queue and one completion queue.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/srq
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"purerdma/cm"
	"purerdma/examples/internal/example"
	"purerdma/verbs"
)

const (
	server  = example.Server
	client  = example.Client
	clients = 3
	size    = 64 // of a message
)

func main() { example.Main(run) }

func run(ctx context.Context, w io.Writer) error {
	// All connections share the PD of the SRQ. No memory of it has remote rights.
	lc := cm.ListenConfig{PD: (*verbs.Device).DefaultPD}
	ln, err := lc.Listen(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln, w) }()
	for i := range clients {
		err = errors.Join(err, dial(ctx, fmt.Sprintf("hello from client %d", i)))
	}
	return errors.Join(err, <-served)
}

// serve accepts the connections in turn and takes one message of each from the SRQ.
func serve(ctx context.Context, ln *cm.Listener, w io.Writer) error {
	var srq *verbs.SRQ
	var cq *verbs.CQ
	var buf *verbs.MR
	for range clients {
		req, err := example.Accept(ctx, ln.Accept)
		if err != nil {
			return err
		}
		pd, err := req.PD()
		if err != nil {
			return err
		}
		if srq == nil { // the first request shows the device
			if srq, cq, buf, err = queues(pd); err != nil {
				return err
			}
		}
		qp, err := pd.CreateQP(verbs.QPConfig{SRQ: srq, RecvCQ: cq})
		if err != nil {
			return err
		}
		conn, err := req.Accept(ctx, qp, nil)
		if err != nil {
			return err
		}
		var wc [1]verbs.WC
		if _, err := cq.Wait(ctx, wc[:]); err != nil { // of any connection: see WC.QPNum
			return err
		}
		fmt.Fprintf(w, "%s\n", buf.Bytes()[int(wc[0].ID)*size:][:wc[0].ByteLen])
		if _, err := conn.Disconnect(ctx); err != nil {
			return err
		}
		conn.Close()
		qp.Close()
	}
	return errors.Join(srq.Close(), cq.Close(), buf.Close())
}

// queues makes the queues that all connections share, and posts a receive for each.
func queues(pd *verbs.PD) (srq *verbs.SRQ, cq *verbs.CQ, buf *verbs.MR, err error) {
	if srq, err = pd.CreateSRQ(verbs.SRQConfig{MaxWR: clients}); err != nil {
		return
	}
	if cq, err = pd.Device().CreateCQ(verbs.CQConfig{Entries: clients}); err != nil {
		return
	}
	if buf, err = pd.Alloc(clients*size, verbs.LocalWrite); err != nil {
		return
	}
	var b verbs.RecvBatch
	for i := range clients {
		b.Add(uint64(i), buf.Slice(i*size, size))
	}
	_, err = srq.PostRecv(b.WRs())
	return
}

// dial sends one message and waits until the server disconnects.
func dial(ctx context.Context, msg string) error {
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(client))}
	conn, err := d.Dial(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, InlineData: []byte(msg)}}); err != nil {
		return err
	}
	_, err = conn.Wait(ctx)
	return err
}
