// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"context"
	"errors"
	"net"
	"testing"

	"golang.org/x/net/nettest"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/rsocket"
	"purerdma/uverbs/uverbstest"
)

// TestRsocket runs the suite on connections of package rsocket between two fake devices.
func TestRsocket(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		k := cmtest.New(uverbstest.New("rxe0", "rxe1")) // 10.0.0.1 and 10.0.0.2
		lc := rsocket.ListenConfig{CM: cm.ListenConfig{Host: k.Host()}}
		ln, err := lc.Listen(context.Background(), "tcp", "10.0.0.1:7471")
		if err != nil {
			return nil, nil, nil, err
		}
		defer ln.Close()
		d := rsocket.Dialer{CM: cm.Dialer{Host: k.Host()}}
		dialed := make(chan error, 1)
		go func() {
			var err error
			c1, err = d.DialContext(context.Background(), "tcp", "10.0.0.1:7471")
			dialed <- err
		}()
		c2, err = ln.Accept()
		if err = errors.Join(err, <-dialed); err != nil {
			return nil, nil, nil, err
		}
		stop = func() {
			for _, c := range []net.Conn{c1, c2} {
				c.(*rsocket.Conn).SetLinger(0) // Close releases all objects before it returns
				c.Close()
			}
			nothingLeft(t, k)
		}
		return c1, c2, stop, nil
	})
}
