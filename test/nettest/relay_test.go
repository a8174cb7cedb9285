// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/stream"
	"purerdma/uverbs/uverbstest"
)

// TestRelay runs the suite through a relay on fake devices.
func TestRelay(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	lc := stream.ListenConfig{CM: cm.ListenConfig{Host: k.Host()}}
	d := &stream.Dialer{CM: cm.Dialer{Host: k.Host()}}
	ln, err := lc.Listen(t.Context(), "tcp", "10.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	stop := startRelay(t, ln, d)
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		return relayed(&lc, d, ln.Addr().String(), netip.MustParseAddr("10.0.0.2"))
	})
	stop()
	nothingLeft(t, k)
}

// startRelay starts a relay. Each connection begins with a line that has an address. The relay connects to this address, and
// copies all further bytes in both directions, and the end of each direction.
func startRelay(t *testing.T, ln net.Listener, d *stream.Dialer) (stop func()) {
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
			all.Go(func() { relay(t, d, c.(*stream.Conn)) })
		}
	})
	return func() {
		ln.Close()
		all.Wait()
	}
}

// relayTime bounds the time of the relay to connect.
const relayTime = time.Minute

// relay relays one connection. The suite ends connections in all ways, so errors of the copies are none of the relay.
func relay(t *testing.T, d *stream.Dialer, a *stream.Conn) {
	defer a.Close()
	in := bufio.NewReader(a)
	address, err := in.ReadString('\n')
	if err != nil {
		t.Errorf("the relay's address: %v", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), relayTime)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", strings.TrimSpace(address))
	if err != nil {
		t.Errorf("DialContext of the relay: %v", err)
		return
	}
	defer conn.Close()
	b := conn.(*stream.Conn)
	var both sync.WaitGroup
	forward := func(dst *stream.Conn, src io.Reader) {
		if _, err := io.Copy(dst, src); err != nil { // one of the ends has failed
			a.Close()
			b.Close()
			return
		}
		dst.CloseWrite()
	}
	both.Go(func() { forward(b, in) })
	both.Go(func() { forward(a, b) })
	both.Wait()
}

// relayed implements nettest.MakePipe with a relay. The ends of the pipe are on the host.
func relayed(lc *stream.ListenConfig, d *stream.Dialer, relay string, host netip.Addr) (c1, c2 net.Conn, stop func(), err error) {
	ln, err := lc.Listen(context.Background(), "tcp", netip.AddrPortFrom(host, 0).String())
	if err != nil {
		return nil, nil, nil, err
	}
	c1, err = d.DialContext(context.Background(), "tcp", relay)
	if err != nil {
		return nil, nil, nil, errors.Join(err, ln.Close())
	}
	_, err = io.WriteString(c1, ln.Addr().String()+"\n")
	if err == nil {
		timer := time.AfterFunc(relayTime, func() { ln.Close() })
		c2, err = ln.Accept()
		timer.Stop()
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, c1.Close(), ln.Close())
	}
	return c1, c2, func() {
		c1.Close()
		c2.Close()
		ln.Close()
	}, nil
}
