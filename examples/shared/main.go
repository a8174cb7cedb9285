// SPDX-License-Identifier: Apache-2.0

// Shared serves many connections, which share receives, completion queues and a memory pool. The
// server has no goroutine for each of them.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/shared
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"purerdma/cm"
	"purerdma/examples/internal/example"
	"purerdma/inflight"
)

const clients = 50

func main() { example.Main(run) }

func run(ctx context.Context, w io.Writer) error {
	shared := cm.NewShared(cm.SharedConfig{
		Receive: inflight.ReceiveConfig{Size: 1024, Depth: 512, MaxHeld: 32},
	})
	defer shared.Close() // after the connections
	ln, err := (&cm.ListenConfig{Shared: shared}).Listen(ctx, "tcp", example.Server)
	if err != nil {
		return err
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln) }()
	return errors.Join(dial(ctx, shared, w), <-served)
}

// serve accepts the connections, and waits for their ends.
func serve(ctx context.Context, ln *cm.Listener) error {
	var conns [clients]*cm.Conn
	for i := range conns {
		req, err := example.Accept(ctx, ln.Accept)
		if err != nil {
			return err
		}
		defer req.Close()
		if conns[i], err = req.Accept(ctx, nil, nil); err != nil {
			return err
		}
		defer conns[i].Close()
		echo(ctx, conns[i])
	}
	for _, conn := range conns {
		if _, err := conn.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// echo sends each message of a connection back, from the memory of its receive. The function must
// not block, so StartSend fails there if the send queue is full. Each answer in the queue holds a
// message, and the queue has room for more than MaxHeld. So it is never full.
func echo(ctx context.Context, conn *cm.Conn) {
	conn.HandleMessages(func(m *inflight.Message, err error) {
		if err != nil {
			return // io.EOF after the peer's disconnect
		}
		op, err := conn.StartSend(ctx, m.SGE(), m)
		if err == nil {
			op.Detach()
		}
	})
}

// dial makes all connections, and then sends a message on each.
func dial(ctx context.Context, shared *cm.Shared, w io.Writer) error {
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(example.Client)), Shared: shared}
	var conns [clients]*cm.Conn
	for i := range conns {
		var err error
		if conns[i], err = d.Dial(ctx, "tcp", example.Server); err != nil {
			return err
		}
		defer conns[i].Close()
	}
	answers := 0
	for i, conn := range conns {
		b, err := conn.Pool().Copy(ctx, fmt.Appendf(nil, "hello %d", i))
		if err != nil {
			return err
		}
		if err := conn.Send(ctx, b.SGE()); err != nil {
			return err
		}
		b.Free()
		m, err := conn.Receive(ctx)
		if err != nil {
			return err
		}
		if string(m.Bytes()) == fmt.Sprintf("hello %d", i) {
			answers++
		}
		m.Free()
	}
	fmt.Fprintf(w, "%d connections, %d answers\n", clients, answers)
	return nil
}
