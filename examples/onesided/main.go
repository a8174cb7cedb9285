// SPDX-License-Identifier: Apache-2.0

// Onesided reads and writes memory of a peer, which offers it in its private data.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/onesided
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
	size   = 4096
)

func main() { example.Main(run) }

func run(ctx context.Context, w io.Writer) error {
	ln, err := cm.Listen(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln, w) }()
	return errors.Join(dial(ctx, w), <-served)
}

func serve(ctx context.Context, ln *cm.Listener, w io.Writer) error {
	req, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer req.Close()
	// Each connection has a PD of its own, so that only this peer reaches the memory.
	shared, err := req.Alloc(size, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite)
	if err != nil {
		return err
	}
	copy(shared.Bytes(), "read me")
	note, err := req.Alloc(1, verbs.LocalWrite)
	if err != nil {
		return err
	}
	if err := req.PostRecv(1, note.SGE()); err != nil {
		return err
	}
	offer, err := shared.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	conn, err := req.Accept(ctx, nil, &cm.ConnParam{PrivateData: offer})
	if err != nil {
		return err
	}
	defer conn.Close()
	// A WRITE causes no completion here. The message behind it does, and makes it visible.
	if _, err := conn.WaitRecv(ctx); err != nil {
		return err
	}
	fmt.Fprintf(w, "the client wrote %q\n", shared.Bytes()[size/2:][:5])
	_, err = conn.Wait(ctx)
	return err
}

func dial(ctx context.Context, w io.Writer) error {
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(client))}
	conn, err := d.Dial(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer conn.Close()
	var theirs verbs.RemoteMemory // zeros follow it in private data on RoCE
	if err := theirs.UnmarshalBinary(conn.PrivateData()[:verbs.RemoteMemoryLen]); err != nil {
		return err
	}
	if theirs.Length < size { // Slice would panic
		return fmt.Errorf("the server offers %d bytes, want %d", theirs.Length, size)
	}
	// On iWARP the peer's device writes the data of a READ, which takes RemoteWrite.
	buf, err := conn.Alloc(size, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		return err
	}
	if err := conn.Read(ctx, buf.Slice(0, 64), theirs.Slice(0, 64)); err != nil {
		return err
	}
	fmt.Fprintf(w, "the client read %q\n", buf.Bytes()[:7])
	n := copy(buf.Bytes(), "hello")
	if err := conn.Write(ctx, buf.Slice(0, n), theirs.Slice(size/2, n)); err != nil {
		return err
	}
	if err := conn.Send(ctx, buf.Slice(0, 1)); err != nil {
		return err
	}
	_, err = conn.Disconnect(ctx)
	return err
}
