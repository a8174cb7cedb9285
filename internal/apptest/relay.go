// SPDX-License-Identifier: Apache-2.0

package apptest

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// StartRelay accepts the connections of ln, and connects each with the connection that dial makes for it. dial may read
// from client. The relay copies all further bytes in both directions, and the end of each direction. stop closes ln, and
// waits until both ends of each connection are closed. The connections have a method CloseWrite.
func StartRelay(t *testing.T, ln net.Listener, dial func(client net.Conn) (net.Conn, error)) (stop func()) {
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				t.Errorf("Accept of the relay: %v", err)
				return
			}
			all.Go(func() {
				defer c.Close()
				s, err := dial(c)
				if err != nil {
					t.Errorf("dial() of the relay: %v", err)
					return
				}
				defer s.Close()
				relay(c.(duplex), s.(duplex))
			})
		}
	})
	return func() {
		ln.Close()
		all.Wait()
	}
}

// duplex is a connection whose directions end separately.
type duplex interface {
	net.Conn
	CloseWrite() error
}

// relay copies between a client and a server. Each of them may end the connection at any time, so errors of the copies are
// none of the relay.
func relay(client, server duplex) {
	forward := func(dst, src duplex) {
		if _, err := io.Copy(dst, src); err != nil { // one of the ends has failed
			client.Close()
			server.Close()
			return
		}
		dst.CloseWrite()
	}
	var both sync.WaitGroup
	both.Go(func() { forward(server, client) })
	both.Go(func() { forward(client, server) })
	both.Wait()
}
