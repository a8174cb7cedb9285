// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"io"
	"net"
	"testing"

	"purerdma/cm"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

// TestFailedHandshakes makes handshakes of a listener fail by errors of its own process.
func TestFailedHandshakes(t *testing.T) {
	streamconntest.Handshakes(t, func(config cm.ListenConfig) (streamconntest.Listener, error) {
		ln, err := (&stream.ListenConfig{CM: config}).Listen(t.Context(), "tcp", "10.0.0.1:0")
		return netListener{ln}, err
	}, func(ctx context.Context, d cm.Dialer, to string) (io.Closer, error) {
		return (&stream.Dialer{CM: d}).DialContext(ctx, "tcp", to)
	})
}

// netListener is a net.Listener whose Accept has a context.
type netListener struct{ net.Listener }

// Accept implements streamconntest.Listener.
func (ln netListener) Accept(ctx context.Context) (io.Closer, error) {
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	return ln.Listener.Accept()
}
