// SPDX-License-Identifier: Apache-2.0

// This program is the key-value store of the tutorial. Clients send requests as messages, and read short
// values from the server's memory.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/tutorial/kv
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/tutorial/kv -bench 100
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"

	"purerdma/cm"
	"purerdma/examples/internal/example"
)

func main() {
	flag.Parse()
	example.Main(run)
}

// run serves a store, and uses it from the other end of the wire.
func run(ctx context.Context, w io.Writer) error {
	ln, err := (&cm.ListenConfig{Receive: receives}).Listen(ctx, "tcp", example.Server)
	if err != nil {
		return err
	}
	defer ln.Close()
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		served <- (&Server{values: map[string]string{}, table: make([]byte, tableSize)}).Serve(serving, ln)
	}()
	err = use(ctx, w)
	stop()
	if e := <-served; !errors.Is(e, context.Canceled) {
		err = errors.Join(err, e)
	}
	return err
}

func use(ctx context.Context, w io.Writer) error {
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(example.Client))}
	c, err := Dial(ctx, d, example.Server)
	if err != nil {
		return err
	}
	defer c.Close()
	if *goroutines > 0 {
		return measure(ctx, c, w)
	}
	fmt.Fprintln(w, "PUT color:", c.Put(ctx, "color", "blue"))
	for range 2 {
		value, err := c.Get(ctx, "color")
		fmt.Fprintf(w, "GET color: %q, %v\n", value, err)
		fmt.Fprintln(w, "DELETE color:", c.Delete(ctx, "color"))
	}
	return nil
}
