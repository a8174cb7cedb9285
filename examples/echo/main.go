// SPDX-License-Identifier: Apache-2.0

// Echo connects a client with a server, which sends each message back.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/echo
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
	server = example.Server
	client = example.Client
	size   = 4096 // of a buffer
)

func main() { example.Main(run) }

func run(ctx context.Context, w io.Writer) error {
	ln, err := cm.Listen(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln) }()
	return errors.Join(dial(ctx, w), <-served)
}

// serve accepts one connection and echoes its messages until the peer disconnects.
func serve(ctx context.Context, ln *cm.Listener) error {
	req, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer req.Close()
	buf, err := req.Alloc(2*size, verbs.LocalWrite)
	if err != nil {
		return err
	}
	// The peer may send as soon as it is connected, so the receives come first. With two of
	// them, one is ready while the other is being answered.
	for id := range 2 {
		if err := req.PostRecv(uint64(id), buf.Slice(id*size, size)); err != nil {
			return err
		}
	}
	conn, err := req.Accept(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer conn.Close() // frees buf
	for {
		wc, err := conn.WaitRecv(ctx)
		if errors.Is(err, io.EOF) {
			return nil // the peer has disconnected
		}
		if err != nil {
			return err
		}
		at := int(wc.ID) * size
		if err := conn.Send(ctx, buf.Slice(at, int(wc.ByteLen))); err != nil {
			return err
		}
		if err := conn.PostRecv(wc.ID, buf.Slice(at, size)); err != nil {
			return err
		}
	}
}

// dial sends one message and prints the answer.
func dial(ctx context.Context, w io.Writer) error {
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(client))}
	conn, err := d.Dial(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer conn.Close()
	buf, err := conn.Alloc(2*size, verbs.LocalWrite)
	if err != nil {
		return err
	}
	if err := conn.PostRecv(1, buf.Slice(size, size)); err != nil {
		return err
	}
	n := copy(buf.Bytes(), "hello")
	if err := conn.Send(ctx, buf.Slice(0, n)); err != nil {
		return err
	}
	wc, err := conn.WaitRecv(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "the server answered %q\n", buf.Bytes()[size:][:wc.ByteLen])
	_, err = conn.Disconnect(ctx)
	return err
}
