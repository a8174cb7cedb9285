// SPDX-License-Identifier: Apache-2.0

// Kv2 is the second step of the key-value store. The client reads the server's table by
// RDMA READ, and the server's program has no part in a GET.
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
	"purerdma/examples/internal/table"
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
	// The table belongs to this connection, whose PD keeps other clients out.
	store, err := req.Alloc(table.Size, verbs.LocalWrite|verbs.RemoteRead)
	if err != nil {
		return err
	}
	offer, err := store.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	conn, err := req.Accept(ctx, nil, &cm.ConnParam{PrivateData: offer})
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		wc, err := conn.WaitRecv(ctx)
		if errors.Is(err, io.EOF) {
			return nil // the client has disconnected
		}
		if err != nil {
			return err
		}
		answer := handle(store.Bytes(), string(buf.Bytes()[:wc.ByteLen]))
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
func handle(store []byte, request string) string {
	f := strings.Fields(request)
	if len(f) != 3 || f[0] != "SET" {
		return "bad request"
	}
	slot := store[table.Offset(f[1]):][:table.SlotSize]
	if err := table.Encode(slot, f[1], f[2]); err != nil {
		return err.Error()
	}
	return "OK"
}

// use connects to the server and makes some requests.
func use(ctx context.Context, w io.Writer) error {
	d := cm.Dialer{LocalAddr: cm.AddrFrom(netip.MustParseAddrPort(example.Client))}
	conn, err := d.Dial(ctx, "tcp", example.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	buf, err := conn.Alloc(2*size, verbs.LocalWrite|verbs.RemoteWrite) // RemoteWrite is for READs on iWARP
	if err != nil {
		return err
	}
	var store verbs.RemoteMemory
	if err := store.UnmarshalBinary(conn.PrivateData()[:verbs.RemoteMemoryLen]); err != nil {
		return err
	}
	if store.Length < table.Size { // Slice would panic
		return fmt.Errorf("the server offers %d bytes, want %d", store.Length, table.Size)
	}
	answer, err := call(ctx, conn, buf, "SET color blue")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "SET color: %s\n", answer)
	for _, key := range []string{"color", "size"} {
		value, err := get(ctx, conn, buf, store, key)
		if err != nil && !errors.Is(err, table.ErrNotFound) {
			return err
		}
		fmt.Fprintf(w, "GET %s: %q, %v\n", key, value, err)
	}
	_, err = conn.Disconnect(ctx)
	return err
}

// get reads the slot of a key. If the server writes it at the same time, the checksum is
// wrong, and get reads again.
func get(ctx context.Context, conn *cm.Conn, buf *verbs.MR, store verbs.RemoteMemory, key string) (string, error) {
	for {
		if err := conn.Read(ctx, buf.Slice(0, table.SlotSize), store.Slice(table.Offset(key), table.SlotSize)); err != nil {
			return "", err
		}
		value, err := table.Decode(buf.Bytes()[:table.SlotSize], key)
		if !errors.Is(err, table.ErrTorn) {
			return value, err
		}
	}
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
