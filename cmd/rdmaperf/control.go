// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"purerdma/oob"
	"purerdma/verbs"
)

// message is a message between the two sides, in addition to the measured traffic. Each message
// is one JSON object on the control connection. The sides take turns:
//
//		client                          server
//		Plan ->
//		                                <- Memory, Token, Plan
//	 (a connection for each QP)
//		Size ->                                           (for each size)
//		                                <- an empty message: start
//		(traffic)
//		Sent ->
//		                                <- an empty message (send, write_lat), then
//		(one more on each QP)              the last messages
//		                                <- Messages, Bytes
type message struct {
	Plan *plan `json:",omitempty"` // the server's plan has the options that both sides support
	// Memory is the sender's memory.
	Memory verbs.RemoteMemory `json:",omitzero"`
	Token  uint64             `json:",omitempty"` // identifies the client's other connections
	QP     *oob.Address       `json:",omitempty"` // without the connection manager, one message for each QP
	Size   int                `json:",omitempty"`
	Sent   uint64             `json:",omitempty"` // messages of this size, all QPs
	// Messages and Bytes count the data that the server has received.
	Messages uint64 `json:",omitempty"`
	Bytes    uint64 `json:",omitempty"`
	Error    string `json:",omitempty"`
}

// maxMessage is the maximum length of a message, in bytes.
const maxMessage = 4096

// control is the control connection.
type control interface {
	send(context.Context, message) error
	// receive waits for the other side's message. It returns the error in the message, if any.
	receive(context.Context) (message, error)
	// done is closed when the other side has left.
	done() <-chan struct{}
	close()
}

// request sends a message and waits for the answer.
func request(ctx context.Context, c control, m message) (message, error) {
	if err := c.send(ctx, m); err != nil {
		return m, err
	}
	return c.receive(ctx)
}

func encode(m message) ([]byte, error) {
	b, err := json.Marshal(m)
	if err == nil && len(b) >= maxMessage {
		err = fmt.Errorf("message too long: %d bytes", len(b))
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
