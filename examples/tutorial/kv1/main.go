// SPDX-License-Identifier: Apache-2.0

// Kv1 is the first step of the key-value store. The server answers messages.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"purerdma/cm"
	"purerdma/examples/internal/example"
	"purerdma/verbs"
)

const size = 256 // of a message

func main() { example.Main(run) }

func run(ctx context.Context, w io.Writer) error {
	ln, err := cm.Listen(ctx, "tcp", example.Server)
	if err != nil {
		return err
	}
	defer ln.Close()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln) }()
	return errors.Join(use(ctx, w), <-served)
}

// serve answers the requests of one client.
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
	if err := req.PostRecv(1, buf.Slice(0, size)); err != nil {
		return err
	}
	conn, err := req.Accept(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	store := map[string]string{}
	for {
		wc, err := conn.WaitRecv(ctx)
		if errors.Is(err, io.EOF) {
			return nil // the client has disconnected
		}
		if err != nil {
			return err
		}
		answer := handle(store, string(buf.Bytes()[:wc.ByteLen]))
		// The client may send its next request after the answer, so make room first.
		if err := conn.PostRecv(1, buf.Slice(0, size)); err != nil {
			return err
		}
		n := copy(buf.Bytes()[size:], answer)
		if err := conn.Send(ctx, buf.Slice(size, n)); err != nil {
			return err
		}
	}
}

// handle carries out one request and returns the answer.
func handle(store map[string]string, request string) string {
	f := strings.Fields(request)
	switch {
	case len(f) == 3 && f[0] == "SET":
		store[f[1]] = f[2]
		return "OK"
	case len(f) == 2 && f[0] == "GET":
		if value, ok := store[f[1]]; ok {
			return value
		}
		return "no such key"
	}
	return "bad request"
}

// use connects to the server and makes some requests.
func use(ctx context.Context, w io.Writer) error {
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(example.Client))}
	conn, err := d.Dial(ctx, "tcp", example.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	buf, err := conn.Alloc(2*size, verbs.LocalWrite)
	if err != nil {
		return err
	}
	for _, request := range []string{"SET color blue", "GET color", "GET size"} {
		answer, err := call(ctx, conn, buf, request)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: %s\n", request, answer)
	}
	_, err = conn.Disconnect(ctx)
	return err
}

// call sends a request and returns the answer.
func call(ctx context.Context, conn *cm.Conn, buf *verbs.MR, request string) (string, error) {
	if err := conn.PostRecv(1, buf.Slice(size, size)); err != nil {
		return "", err
	}
	n := copy(buf.Bytes(), request)
	if err := conn.Send(ctx, buf.Slice(0, n)); err != nil {
		return "", err
	}
	wc, err := conn.WaitRecv(ctx)
	if err != nil {
		return "", err
	}
	return string(buf.Bytes()[size:][:wc.ByteLen]), nil
}
