// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"purerdma/oob"
	"purerdma/verbs"
)

// message is what the two sides say to each other, in turn, beside the traffic:
// one JSON object on a connection of its own.
//
//	client                          server
//	Plan ->
//	                                <- Memory, Token, Plan
//	(a connection for each QP)
//	Size ->                                           (for each size)
//	                                <- an empty one: go
//	(traffic)
//	Sent ->
//	                                <- an empty one   (send, write_lat; then the
//	(one more on each QP)                              last messages)
//	                                <- Messages, Bytes
type message struct {
	Plan *plan `json:",omitempty"` // the server's has what both can do
	// Memory is the sender's.
	Memory verbs.RemoteMemory `json:",omitzero"`
	Token  uint64             `json:",omitempty"` // of the client's other connections
	QP     *oob.Address       `json:",omitempty"` // without the connection manager, one after the other
	Size   int                `json:",omitempty"`
	Sent   uint64             `json:",omitempty"` // messages of this size, all QPs
	// Messages and Bytes are what the server has received.
	Messages uint64 `json:",omitempty"`
	Bytes    uint64 `json:",omitempty"`
	Error    string `json:",omitempty"`
}

// maxMessage is how long one may be, in bytes.
const maxMessage = 4096

// control is the connection of control.
type control interface {
	send(context.Context, message) error
	// receive waits for the other side's message. What that says of an error is one.
	receive(context.Context) (message, error)
	// done is closed when the other side has left.
	done() <-chan struct{}
	close()
}

// ask sends a message and waits for the answer.
func ask(ctx context.Context, c control, m message) (message, error) {
	if err := c.send(ctx, m); err != nil {
		return m, err
	}
	return c.receive(ctx)
}

func encode(m message) ([]byte, error) {
	b, err := json.Marshal(m)
	if err == nil && len(b) >= maxMessage {
		err = fmt.Errorf("a message of %d bytes does not fit", len(b))
	}
	return b, err
}

func decode(b []byte) (m message, err error) {
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("the other side's message: %w", err)
	}
	if m.Error != "" {
		return m, fmt.Errorf("the other side: %q", m.Error)
	}
	return m, nil
}
