// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/rsocket"
	"purerdma/uverbs/uverbstest"
)

// TestRsocket runs the suite on connections of package rsocket between two fake devices, and on such connections with
// the Close that iWARP needs.
func TestRsocket(t *testing.T) {
	for _, iwarp := range []bool{false, true} {
		t.Run(fmt.Sprintf("confirmed=%v", iwarp), func(t *testing.T) {
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				k := cmtest.New(uverbstest.New("rxe0", "rxe1")) // 10.0.0.1 and 10.0.0.2
				lc := rsocket.ListenConfig{CM: cm.ListenConfig{Host: k.Host()}}
				d := rsocket.Dialer{CM: cm.Dialer{Host: k.Host()}}
				c1, c2, stop, err := rsocketPipe(&lc, &d, netip.MustParseAddr("10.0.0.1"), iwarp)
				return c1, c2, func() {
					stop()
					nothingLeft(t, k)
				}, err
			})
		})
	}
}

// rsocketPipe implements nettest.MakePipe. With iwarp set, Close waits for the peer.
func rsocketPipe(lc *rsocket.ListenConfig, d *rsocket.Dialer, server netip.Addr, iwarp bool) (c1, c2 net.Conn, stop func(), err error) {
	dialed, accepted, end, err := pipe(lc.Listen, d.DialContext, server)
	if err != nil {
		return nil, nil, nil, err
	}
	stop = func() {
		discard(dialed, accepted)
		end()
	}
	if iwarp {
		return confirmed{dialed.(*rsocket.Conn)}, confirmed{accepted.(*rsocket.Conn)}, stop, nil
	}
	return dialed, accepted, stop, nil
}

// confirmed is an rsocket over iWARP. There the last bytes before Close can be lost. So Close first waits for the end of
// the peer's stream, which comes after the peer has all bytes.
type confirmed struct{ *rsocket.Conn }

// confirmTime bounds the wait. Only a test whose peer does not close, or a lost message, takes so long.
const confirmTime = 2 * time.Second

// Close implements net.Conn.
func (c confirmed) Close() error {
	if err := c.CloseWrite(); err == nil {
		c.SetReadDeadline(time.Now().Add(confirmTime))
		_, _ = io.Copy(io.Discard, c.Conn) // the connection may have failed
	}
	return c.Conn.Close()
}

// discard makes Close of rsockets discard their unsent bytes. Close then releases all objects before it returns.
func discard(conns ...net.Conn) {
	for _, c := range conns {
		c.(*rsocket.Conn).SetLinger(0) // fails after Close
	}
}
