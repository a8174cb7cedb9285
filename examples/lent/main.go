// SPDX-License-Identifier: Apache-2.0

// Lent makes a call that lends 64 MiB of memory, which the server fills.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/lent
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"purerdma/cm"
	"purerdma/examples/internal/example"
	"purerdma/msg"
	"purerdma/verbs"
)

const (
	size  = 64 << 20
	piece = 1 << 20 // bytes that the server makes at a time
)

func main() { example.Main(run) }

func run(ctx context.Context, w io.Writer) error {
	ln, err := msg.Listen(ctx, "tcp", example.Server)
	if err != nil {
		return err
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln) }()
	return errors.Join(call(ctx, w), <-served)
}

// serve answers the requests of one client.
func serve(ctx context.Context, ln *msg.Listener) error {
	conn, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	mr, err := conn.PD().Alloc(piece, verbs.LocalWrite) // no peer reaches it
	if err != nil {
		return err
	}
	defer mr.Close()
	for {
		m, err := conn.Receive(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fill(ctx, m, mr); err != nil {
			_ = m.Fail(ctx, err.Error()) // the connection may have ended
		}
		m.Free()
	}
}

// fill writes to the memory that a request lends, and answers.
func fill(ctx context.Context, m *msg.Message, mr *verbs.MR) error {
	_, lent := m.Lent()
	for off := 0; uint64(off) < lent.Length; off += piece {
		n := int(min(piece, lent.Length-uint64(off)))
		for i := range mr.Bytes()[:n] {
			mr.Bytes()[i] = byte(off/piece + i)
		}
		// It fails if the client cancels the call.
		if err := m.WriteLent(ctx, mr.Slice(0, n), off); err != nil {
			return err
		}
	}
	return m.Reply(ctx, 0, fmt.Appendf(nil, "%d bytes", lent.Length))
}

// call lends memory, and prints the reply and a checksum.
func call(ctx context.Context, w io.Writer) error {
	d := msg.Dialer{CM: cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(example.Client))}}
	conn, err := d.Dial(ctx, "tcp", example.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	data := make([]byte, size)
	reply, err := conn.Do(ctx, &msg.Request{Write: msg.Memory{Bytes: data}})
	if err != nil {
		return err
	}
	defer reply.Free()
	// The server can no longer reach data.
	want := make([]byte, piece)
	for off := 0; off < size; off += piece {
		for i := range want {
			want[i] = byte(off/piece + i)
		}
		if !bytes.Equal(data[off:][:piece], want) {
			return fmt.Errorf("wrong bytes from %d on", off)
		}
	}
	fmt.Fprintf(w, "the server has written %s\n", reply.Bytes())
	return nil
}
