// SPDX-License-Identifier: Apache-2.0

// Hello is the program of the first tutorial. A server echoes one message of its client.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	role := server
	if len(os.Args) > 1 && os.Args[1] == "client" {
		role = client
	}
	if err := role(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// server accepts one connection and echoes one message.
func server(ctx context.Context, w io.Writer) error {
	ln, err := cm.Listen(ctx, "tcp", "10.8.0.1:7471")
	if err != nil {
		return err
	}
	defer ln.Close()
	req, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer req.Close()
	buf, err := req.Alloc(64, verbs.LocalWrite)
	if err != nil {
		return err
	}
	if err := req.PostRecv(1, buf.SGE()); err != nil {
		return err
	}
	conn, err := req.Accept(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	wc, err := conn.WaitRecv(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "server: received %q\n", buf.Bytes()[:wc.ByteLen])
	if err := conn.Send(ctx, buf.Slice(0, int(wc.ByteLen))); err != nil {
		return err
	}
	_, err = conn.Wait(ctx) // until the client disconnects
	return err
}

// client sends one message and prints the answer.
func client(ctx context.Context, w io.Writer) error {
	dialer := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort("10.8.1.2:0"))}
	conn, err := dialer.Dial(ctx, "tcp", "10.8.0.1:7471")
	if err != nil {
		return err
	}
	defer conn.Close()
	buf, err := conn.Alloc(128, verbs.LocalWrite)
	if err != nil {
		return err
	}
	if err := conn.PostRecv(1, buf.Slice(64, 64)); err != nil {
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
	fmt.Fprintf(w, "client: received %q\n", buf.Bytes()[64:][:wc.ByteLen])
	_, err = conn.Disconnect(ctx)
	return err
}
