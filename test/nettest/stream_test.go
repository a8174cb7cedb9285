// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/stream"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
)

// TestStream runs the suite on connections of package stream, on fake devices of two kinds, with receives
// that connections share and with receives of their own.
func TestStream(t *testing.T) {
	for name, machine := range map[string]func() uverbs.Kernel{
		"rxe":  func() uverbs.Kernel { return uverbstest.New("rxe0", "rxe1") },
		"mlx5": func() uverbs.Kernel { return inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1") },
	} {
		for _, private := range []bool{false, true} {
			t.Run(name+"/"+receives(private), func(t *testing.T) {
				k := cmtest.New(machine())
				lc := stream.ListenConfig{Private: private, CM: cm.ListenConfig{Host: k.Host()}}
				d := stream.Dialer{CM: cm.Dialer{Host: k.Host()}}
				nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
					return pipe(lc.Listen, d.DialContext, netip.MustParseAddr("10.0.0.1"))
				})
				nothingLeft(t, k)
			})
		}
	}
}

// nothingLeft checks that all objects of the kernel are released. It waits for that, because a Close of
// the suite may continue in the background.
func nothingLeft(t *testing.T, k *cmtest.Kernel) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(k.Left()) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if left := k.Left(); len(left) > 0 {
		t.Errorf("Left() = %q, want nothing", left)
	}
}

// receives returns the name of a configuration.
func receives(private bool) string {
	if private {
		return "private"
	}
	return "shared"
}

// pipe implements nettest.MakePipe with a listener on an address.
func pipe(listen func(ctx context.Context, network, address string) (net.Listener, error), dial func(ctx context.Context, network, address string) (net.Conn, error), server netip.Addr) (c1, c2 net.Conn, stop func(), err error) {
	ln, err := listen(context.Background(), "tcp", netip.AddrPortFrom(server, 0).String())
	if err != nil {
		return nil, nil, nil, err
	}
	c1, err = dial(context.Background(), "tcp", ln.Addr().String())
	if err != nil {
		return nil, nil, nil, errors.Join(err, ln.Close())
	}
	c2, err = ln.Accept()
	if err != nil {
		return nil, nil, nil, errors.Join(err, c1.Close(), ln.Close())
	}
	return c1, c2, func() {
		c1.Close()
		c2.Close()
		ln.Close()
	}, nil
}
