// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"net"
	"sync"
	"time"
)

// HelloTime is the time limit for the first message of a connection. Peers send it as soon as
// they have connected.
const HelloTime = 10 * time.Second

// maxStrangers bounds the number of silent connections in excess of the missing guests.
const maxStrangers = 64

// Guest is a connection that has sent the first message of a peer.
type Guest[T any] struct {
	Conn  net.Conn
	Hello T
}

// Welcome waits for peers at a TCP port, to which any host can connect. It closes connections
// that do not send a peer's first message in time, and does not count them.
type Welcome[T any] struct {
	Listener net.Listener
	Patience time.Duration // time limit of the first message, 0 means HelloTime
	// Read reads the first message and fails if it is not a peer's. The connection's deadline
	// ends it. It may run concurrently.
	Read func(net.Conn) (T, error)
	// Refused receives the closed connections with the reason. It may be called concurrently.
	Refused func(conn net.Conn, err error)
}

// Gather returns the first n guests in the order of their messages. It closes the listener and
// all other connections. With an error it returns the guests so far. The caller owns their
// connections.
func (w *Welcome[T]) Gather(ctx context.Context, n int) ([]Guest[T], error) {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { w.Listener.Close() })()
	defer w.Listener.Close()
	var readers sync.WaitGroup
	defer func() { cancel(); readers.Wait() }()
	arrived, failed := make(chan Guest[T]), make(chan error, 1)
	places := make(chan struct{}, n+maxStrangers)
	readers.Go(func() {
		for {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			conn, err := AcceptConn(ctx, w.Listener, nil)
			if err != nil {
				failed <- err
				return
			}
			readers.Go(func() {
				w.greet(ctx, conn, arrived)
				<-places
			})
		}
	})
	var guests []Guest[T]
	for len(guests) < n {
		select {
		case g := <-arrived:
			guests = append(guests, g)
		case err := <-failed:
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return guests, err
		case <-ctx.Done():
			return guests, context.Cause(ctx)
		}
	}
	return guests, nil
}

// greet waits for one connection's first message. It closes the connection unless Gather
// accepts the guest.
func (w *Welcome[T]) greet(ctx context.Context, conn net.Conn, arrived chan<- Guest[T]) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	patience := w.Patience
	if patience == 0 {
		patience = HelloTime
	}
	err := conn.SetReadDeadline(time.Now().Add(patience))
	var hello T
	if err == nil {
		hello, err = w.Read(conn)
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err == nil && stop() {
		select {
		case arrived <- Guest[T]{conn, hello}:
			return
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil && w.Refused != nil {
		w.Refused(conn, err)
	}
	conn.Close()
}
