// SPDX-License-Identifier: Apache-2.0

// Kv3 is the third step of the key-value store. Many READs are under way at a time.
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

const (
	size  = 256 // of a message
	count = 32  // of keys, fewer than the 128 requests of the send queue
)

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
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprintf("key%d", i)
		if _, err := call(ctx, conn, buf, fmt.Sprintf("SET %s value%d", keys[i], i)); err != nil {
			return err
		}
	}
	values, err := getAll(ctx, conn, store, keys)
	if err != nil {
		return conn.Explain(err)
	}
	fmt.Fprintf(w, "%d values, the last is %q\n", len(values), values[keys[count-1]])
	_, err = conn.Disconnect(ctx)
	return err
}

// getAll reads the slots of the keys with one doorbell. It reads torn slots again.
func getAll(ctx context.Context, conn *cm.Conn, store verbs.RemoteMemory, keys []string) (map[string]string, error) {
	buf, err := conn.Alloc(len(keys)*table.SlotSize, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		return nil, err
	}
	defer buf.Close() // after an error it ends the READs in flight, and with them the connection
	values := map[string]string{}
	var b verbs.Batch
	b.Reset(conn.QP())
	for len(keys) > 0 {
		for i, key := range keys {
			b.Read(uint64(i), buf.Slice(i*table.SlotSize, table.SlotSize),
				store.Slice(table.Offset(key), table.SlotSize), verbs.SendSignaled)
		}
		if err := b.Post(); err != nil {
			return nil, err
		}
		var wcs [count]verbs.WC
		for done := 0; done < len(keys); {
			n, err := conn.QP().SendCQ().Wait(ctx, wcs[:])
			if err != nil {
				return nil, err
			}
			for _, wc := range wcs[:n] {
				if err := wc.Err(); err != nil {
					return nil, err
				}
			}
			done += n
		}
		var torn []string
		for i, key := range keys {
			value, err := table.Decode(buf.Bytes()[i*table.SlotSize:][:table.SlotSize], key)
			switch {
			case err == nil:
				values[key] = value
			case errors.Is(err, table.ErrTorn):
				torn = append(torn, key)
			}
		}
		keys = torn
	}
	return values, nil
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
