// SPDX-License-Identifier: Apache-2.0

// Package acceptor answers connect requests concurrently.
package acceptor

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"purerdma/cm"
	"purerdma/internal/cdev"
)

// Acceptor accepts the requests of a cm.Listener. It answers each request on a goroutine of its own, so
// that a slow peer does not delay the others. A bounded number of requests is answered at a time, in total and
// for each remote address. Further requests wait. C is the type of the connections. Its methods may be called
// concurrently.
type Acceptor[C any] struct {
	inner     *cm.Listener
	handshake func(context.Context, *cm.Request) (C, error)
	discard   func(C)
	failures  failures
	ready     chan result[C]
	room      chan struct{} // a token for each request that is answered, until Accept has returned the connection
	shares    shares        // of room
	run       context.Context
	stop      context.CancelFunc
	running   sync.WaitGroup
}

// result is a result of Accept.
type result[C any] struct {
	conn C
	err  error
}

// New returns an Acceptor that answers the requests of inner and owns it. room bounds the number of
// requests that are answered at a time, until Accept has returned the connection. At most a quarter of them
// are of one address. The limits of inner bound the requests that wait. handshake accepts or rejects a request
// before its context ends. It returns an error if it has made no connection. The Acceptor writes this error to
// log, which may be nil. discard closes a connection that no Accept returns.
func New[C any](inner *cm.Listener, log *slog.Logger, room int, handshake func(context.Context, *cm.Request) (C, error), discard func(C)) *Acceptor[C] {
	run, stop := context.WithCancel(context.Background())
	a := &Acceptor[C]{
		inner: inner, handshake: handshake, discard: discard, failures: failures{log: log},
		ready: make(chan result[C]), room: make(chan struct{}, room), shares: newShares(max(1, room/4)), run: run, stop: stop,
	}
	a.running.Add(1)
	go a.serve()
	return a
}

func (a *Acceptor[C]) serve() {
	defer a.running.Done()
	for {
		req, err := a.inner.Accept(a.run)
		if err != nil {
			if !a.pass(result[C]{err: err}) {
				return
			}
			continue
		}
		a.running.Go(func() {
			defer req.Close()
			a.answerInTurn(req)
		})
	}
}

// answerInTurn waits for a free token and answers a request. It takes the token of the request's address first, so that the
// requests of an address that waits hold no tokens of room.
func (a *Acceptor[C]) answerInTurn(req *cm.Request) {
	host := hostOf(req.RemoteAddr())
	own := a.shares.enter(host)
	defer a.shares.leave(host)
	for _, tokens := range []chan struct{}{own, a.room} {
		select {
		case tokens <- struct{}{}:
			defer func() { <-tokens }()
		case <-req.Done():
			return
		case <-a.run.Done():
			return
		}
	}
	a.answer(req)
}

// answer makes a connection of a request and passes it to a call of Accept.
func (a *Acceptor[C]) answer(req *cm.Request) {
	local, remote := req.LocalAddr(), req.RemoteAddr() // before the handshake closes the request
	conn, err := a.handshake(a.run, req)
	switch {
	case err == nil:
		if !a.pass(result[C]{conn: conn}) {
			a.discard(conn)
		}
	case a.run.Err() == nil: // otherwise Close has ended the handshake
		a.failures.add(local, remote, err)
	}
}

// pass sends a result to a call of Accept. It returns false if the Acceptor is closed first.
func (a *Acceptor[C]) pass(r result[C]) bool {
	select {
	case a.ready <- r:
		return true
	case <-a.run.Done():
		return false
	}
}

// Accept waits for a connection. It returns the error of ctx if ctx ends first, and net.ErrClosed after
// Close. Neither a peer nor a failed handshake can make Accept fail. Accept returns a temporary error of
// cm.Listener.Accept while this process has no file descriptors or memory for further connections.
func (a *Acceptor[C]) Accept(ctx context.Context) (conn C, err error) {
	if a.run.Err() != nil {
		return conn, net.ErrClosed
	}
	select {
	case r := <-a.ready:
		return r.conn, r.err
	case <-a.run.Done():
		return conn, net.ErrClosed
	case <-ctx.Done():
		return conn, cdev.ContextError(ctx)
	}
}

// Addr returns the listener's address.
func (a *Acceptor[C]) Addr() cm.Addr { return a.inner.Addr() }

// Close stops listening. It ends the handshakes, waits for them, and discards the connections that Accept
// has not returned. It may be called more than once.
func (a *Acceptor[C]) Close() error {
	a.stop()
	err := a.inner.Close()
	a.running.Wait()
	return err
}
