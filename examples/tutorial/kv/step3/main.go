// SPDX-License-Identifier: Apache-2.0

// This program is step 3 of the tutorial's key-value store. Several clients use the store, and a checksum
// detects torn reads.
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/tutorial/kv/step3
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"purerdma/cm"
	"purerdma/examples/internal/example"
)

// puts is the number of PUTs during which the other client gets.
const puts = 1000

func main() { example.Main(run) }

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

// use lets one client put two values in turn while another client gets them.
func use(ctx context.Context, w io.Writer) error {
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(example.Client))}
	writer, err := Dial(ctx, d, example.Server)
	if err != nil {
		return err
	}
	defer writer.Close()
	reader, err := Dial(ctx, d, example.Server)
	if err != nil {
		return err
	}
	defer reader.Close()
	values := []string{strings.Repeat("red ", 12), strings.Repeat("blue ", 8)}
	if err := writer.Put(ctx, "color", values[0]); err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		var err error
		for i := 1; i <= puts && err == nil; i++ {
			err = writer.Put(ctx, "color", values[i%2])
		}
		written <- err
	}()
	for len(written) == 0 {
		value, err := reader.Get(ctx, "color")
		if err != nil {
			return err
		}
		if !slices.Contains(values, value) {
			return fmt.Errorf("GET color: %q, which is a mixture of two values", value)
		}
	}
	fmt.Fprintf(w, "%d PUTs of one client: %v\n", puts, <-written)
	fmt.Fprintln(w, "GETs of another client: no mixture of two values")
	return nil
}
