// SPDX-License-Identifier: Apache-2.0

// This program is the store of blobs of the tutorial "calls with messages".
//
//	make bin/rdmavm
//	go run -exec "$PWD/bin/rdmavm -hosts 2" ./examples/tutorial/blobs
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"purerdma/cm"
	"purerdma/examples/internal/example"
	"purerdma/msg"
)

func main() { example.Main(run) }

// run serves a store, and uses it from the other end of the wire.
func run(ctx context.Context, w io.Writer) error {
	ln, err := msg.Listen(ctx, "tcp", example.Server)
	if err != nil {
		return err
	}
	defer ln.Close()
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- (&Server{blobs: map[string][]byte{}}).Serve(serving, ln) }()
	err = use(ctx, w)
	stop()
	if e := <-served; !errors.Is(e, context.Canceled) {
		err = errors.Join(err, e)
	}
	return err
}

func use(ctx context.Context, w io.Writer) error {
	d := msg.Dialer{CM: cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(example.Client))}}
	conn, err := d.Dial(ctx, "tcp", example.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	c := &Client{conn}
	photo := bytes.Repeat([]byte("photo"), 1_000_000)
	fmt.Fprintln(w, "put photo:", c.Put(ctx, "photo", photo))
	for i := range 100 {
		if err := c.Put(ctx, fmt.Sprintf("note %02d", i), []byte("a note")); err != nil {
			return err
		}
	}
	got, err := c.Get(ctx, "photo")
	fmt.Fprintf(w, "get photo: %d bytes, equal: %v, %v\n", len(got), bytes.Equal(got, photo), err)
	n := 0
	err = c.List(ctx, func(string) bool { n++; return true })
	fmt.Fprintf(w, "list: %d keys, %v\n", n, err)
	err = c.List(ctx, func(key string) bool { fmt.Fprintln(w, "first key:", key); return false })
	fmt.Fprintln(w, "list ended early:", err)
	fmt.Fprintln(w, "delete photo:", c.Delete(ctx, "photo"))
	_, err = c.Get(ctx, "photo")
	remote, _ := errors.AsType[*msg.RemoteError](err)
	fmt.Fprintln(w, "get photo:", remote)
	short, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	fmt.Fprintln(w, "timeout:", errors.Is(c.Delete(short, "note 00"), context.DeadlineExceeded))
	size, err := c.Size(ctx, "note 99")
	fmt.Fprintf(w, "size of note 99: %d, %v\n", size, err)
	return nil
}
