// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"context"
	"io"
	"testing"

	"purerdma/cm"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/msg"
)

// TestFailedHandshakes makes handshakes of a listener fail by errors of its own process.
func TestFailedHandshakes(t *testing.T) {
	streamconntest.Handshakes(t, func(config cm.ListenConfig) (streamconntest.Listener, error) {
		ln, err := (&msg.ListenConfig{CM: config}).Listen(t.Context(), "tcp", server)
		return contextListener{ln}, err
	}, func(ctx context.Context, d cm.Dialer, to string) (io.Closer, error) {
		return (&msg.Dialer{CM: d}).Dial(ctx, "tcp", to)
	})
}

// contextListener is a Listener with the result type of streamconntest.Listener.
type contextListener struct{ *msg.Listener }

// Accept implements streamconntest.Listener.
func (ln contextListener) Accept(ctx context.Context) (io.Closer, error) {
	return ln.Listener.Accept(ctx)
}
