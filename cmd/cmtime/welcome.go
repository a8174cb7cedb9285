// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// helloTime is how long a connection may take to send its peer's hello. A leaf sends
// that as soon as it has connected.
const helloTime = 10 * time.Second

// maxStrangers bounds the connections that have sent no hello yet, beyond the leaves
// that are missing.
const maxStrangers = 64

// leaf is a connection that has sent a hello: what it tells of its peer.
type leaf struct {
	conn  net.Conn
	hello [peerSize]byte
}

// welcome waits for the leaves of the root. The port is open to everybody: a connection
// that sends no hello in time, or another message, is closed and does not count.
type welcome struct {
	ln       net.Listener
	patience time.Duration                  // for a hello
	refused  func(conn net.Conn, err error) // hears of connections that are no peer's
}

// gather returns the first n leaves, in the order of their hellos, and closes the
// listener and all other connections. With an error it returns the leaves so far.
func (w *welcome) gather(ctx context.Context, n int) ([]leaf, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer w.ln.Close()
	defer context.AfterFunc(ctx, func() { w.ln.Close() })()
	var readers sync.WaitGroup
	// The readers end with ctx, and nobody counts on them afterwards.
	defer func() { cancel(); readers.Wait() }()
	arrived, failed := make(chan leaf), make(chan error, 1)
	places := make(chan struct{}, n+maxStrangers)
	readers.Go(func() {
		for {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			conn, err := w.ln.Accept()
			if err != nil {
				failed <- err
				return
			}
			readers.Go(func() {
				w.read(ctx, conn, arrived)
				<-places
			})
		}
	})
	var leaves []leaf
	for len(leaves) < n {
		select {
		case l := <-arrived:
			leaves = append(leaves, l)
		case err := <-failed:
			return leaves, err
		case <-ctx.Done():
			return leaves, context.Cause(ctx)
		}
	}
	return leaves, nil
}

// read waits for one connection's hello, and closes the connection unless somebody takes
// the leaf.
func (w *welcome) read(ctx context.Context, conn net.Conn, arrived chan<- leaf) {
	l := leaf{conn: conn}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	conn.SetReadDeadline(time.Now().Add(w.patience))
	_, err := io.ReadFull(conn, l.hello[:])
	if err == nil {
		_, err = decodePeer(l.hello[:])
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err == nil && stop() {
		select {
		case arrived <- l:
			return
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		w.refused(conn, err)
	}
	conn.Close()
}
