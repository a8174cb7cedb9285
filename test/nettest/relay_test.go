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
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/apptest"
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

// startRelay starts a relay. Each connection begins with a line that has an address. The relay connects to this address. The
// client sends further bytes after that.
func startRelay(t *testing.T, ln net.Listener, d *stream.Dialer) (stop func()) {
	return apptest.StartRelay(t, ln, func(client net.Conn) (net.Conn, error) {
		address, err := bufio.NewReader(client).ReadString('\n')
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), relayTime)
		defer cancel()
		return d.DialContext(ctx, "tcp", strings.TrimSpace(address))
	})
}

// relayTime bounds the time of the relay to connect.
const relayTime = time.Minute

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
