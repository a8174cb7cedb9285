// SPDX-License-Identifier: Apache-2.0

package rsocket_test

import (
	"context"
	"io"
	"net"
	"testing"

	"purerdma/cm"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/rsocket"
)

// TestFailedHandshakes makes handshakes of a listener fail by errors of its own process.
func TestFailedHandshakes(t *testing.T) { streamconntest.Handshakes(t, listenCM(t), dialCM) }

// TestAddresses checks that one address may have many requests at a time, and that it cannot block another one.
func TestAddresses(t *testing.T) { streamconntest.Addresses(t, listenCM(t), dialCM) }

// TestCrossings disturbs the life of a connection at each point.
func TestCrossings(t *testing.T) { streamconntest.Crossings(t, listenCM(t), dialCM) }

// listenCM returns a function that listens with options of the connection manager.
func listenCM(t *testing.T) func(cm.ListenConfig) (streamconntest.Listener, error) {
	return func(config cm.ListenConfig) (streamconntest.Listener, error) {
		ln, err := (&rsocket.ListenConfig{CM: config, Options: rsocket.Options{KeepAlive: config.KeepAlive}}).Listen(t.Context(), "tcp", "10.0.0.1:0")
		return netListener{ln}, err
	}
}

// dialCM dials with options of the connection manager.
func dialCM(ctx context.Context, d cm.Dialer, to string) (io.Closer, error) {
	return (&rsocket.Dialer{CM: d, Options: rsocket.Options{KeepAlive: d.KeepAlive}}).DialContext(ctx, "tcp", to)
}

// netListener is a net.Listener whose Accept has a context.
type netListener struct{ net.Listener }

// Accept implements streamconntest.Listener.
func (ln netListener) Accept(ctx context.Context) (io.Closer, error) {
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	return ln.Listener.Accept()
}
