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
	streamconntest.Handshakes(t, listenCM(t), dialCM)
}

// TestAddresses checks that one address may have many requests at a time, and that it cannot block another one.
func TestAddresses(t *testing.T) { streamconntest.Addresses(t, listenCM(t), dialCM) }

// TestCrossings disturbs the life of a connection at each point.
func TestCrossings(t *testing.T) {
	streamconntest.CrossingsOf(t, &streamconntest.Life{
		Listen: listenCM(t), Dial: dialCM,
		Use: askAll, Serve: answerAll,
		Documented: func(err error) bool {
			_, ok := err.(*cm.OpError)
			return ok
		},
	})
}

// Tags of the requests of askAll.
const (
	tagLent = iota
	tagParts
)

// askAll sends a message, makes a call that lends memory, and a call with several replies. It closes the connection.
func askAll(ctx context.Context, closer io.Closer) error {
	c := closer.(*msg.Conn)
	defer c.Close()
	if err := c.Send(ctx, 0, pattern(1, 200)); err != nil {
		return err
	}
	m, err := c.Do(ctx, &msg.Request{Tag: tagLent, Read: msg.Memory{Bytes: pattern(2, 5000)}, Write: msg.Memory{Bytes: make([]byte, 5000)}})
	if err != nil {
		return err
	}
	m.Free()
	r, err := c.Stream(ctx, &msg.Request{Tag: tagParts, Parts: 1})
	if err != nil {
		return err
	}
	defer r.Close()
	for {
		m, err := r.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		m.Free()
	}
}

// answerAll answers the requests of askAll. It closes the connection after the peer has. After the last request a
// keepalive finds the end of the peer if the message about it was lost.
func answerAll(ctx context.Context, closer io.Closer) error {
	c := closer.(*msg.Conn)
	defer c.Close()
	for last := false; ; {
		m, err := c.Receive(ctx)
		if last && err != nil && ctx.Err() == nil {
			return nil
		}
		if err != nil {
			return err
		}
		if m.IsRequest() {
			if last = m.Tag() == tagParts; last {
				_ = m.ReplyPart(ctx, 0, nil) // the client may have cancelled
				_ = m.ReplyPart(ctx, 1, nil)
				_ = m.Reply(ctx, 2, nil)
			} else {
				_ = reverse(ctx, c, m)
			}
		}
		m.Free()
	}
}

// listenCM returns a function that listens with options of the connection manager.
func listenCM(t *testing.T) func(cm.ListenConfig) (streamconntest.Listener, error) {
	return func(config cm.ListenConfig) (streamconntest.Listener, error) {
		ln, err := (&msg.ListenConfig{CM: config}).Listen(t.Context(), "tcp", server)
		return contextListener{ln}, err
	}
}

// dialCM dials with options of the connection manager.
func dialCM(ctx context.Context, d cm.Dialer, to string) (io.Closer, error) {
	return (&msg.Dialer{CM: d}).Dial(ctx, "tcp", to)
}

// contextListener is a Listener with the result type of streamconntest.Listener.
type contextListener struct{ *msg.Listener }

// Accept implements streamconntest.Listener.
func (ln contextListener) Accept(ctx context.Context) (io.Closer, error) {
	return ln.Listener.Accept(ctx)
}
