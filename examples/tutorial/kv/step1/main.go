// SPDX-License-Identifier: Apache-2.0

// This program is step 1 of the tutorial's key-value store. Requests and answers are messages.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/tutorial/kv/step1
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"purerdma/cm"
	"purerdma/examples/internal/example"
)

func main() { example.Main(run) }

// run serves a store, and uses it from the other end of the wire.
func run(ctx context.Context, w io.Writer) error {
	ln, err := (&cm.ListenConfig{Receive: receives}).Listen(ctx, "tcp", example.Server)
	if err != nil {
		return err
	}
	defer ln.Close()
	s := &Server{values: map[string]string{}}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	if err := errors.Join(use(ctx, w), <-served); err != nil {
		return err
	}
	fmt.Fprintf(w, "the server handled %d requests\n", s.requests)
	return nil
}

func use(ctx context.Context, w io.Writer) error {
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(example.Client))}
	c, err := Dial(ctx, d, example.Server)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintln(w, "PUT color:", c.Put(ctx, "color", "blue"))
	for range 2 {
		value, err := c.Get(ctx, "color")
		fmt.Fprintf(w, "GET color: %q, %v\n", value, err)
		fmt.Fprintln(w, "DELETE color:", c.Delete(ctx, "color"))
	}
	return nil
}
