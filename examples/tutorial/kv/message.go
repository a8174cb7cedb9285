// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"

	"purerdma/cm"
	"purerdma/inflight"
)

// window bounds the requests of a client that have no answer yet.
const window = 128

// receives configures the receives of both sides. There is a receive for each request and for each
// answer that may be in flight.
var receives = &inflight.ReceiveConfig{Size: 1024, Depth: window}

// message is a request or its answer.
type message struct {
	ID         int    // of the request
	Op         string `json:",omitempty"` // GET, PUT or DELETE
	Key, Value string `json:",omitempty"`
	Error      Error  `json:",omitempty"` // of an answer
}

// Error is an error that the server reports.
type Error string

func (e Error) Error() string { return string(e) }

// ErrNotFound reports that a key has no value.
const ErrNotFound Error = "no such key"

// send starts to send a message. The connection frees the memory when the message is sent.
func (m message) send(ctx context.Context, conn *cm.Conn) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(data) > receives.Size {
		return Error("key and value are too long")
	}
	b, err := conn.Pool().Copy(ctx, data)
	if err != nil {
		return err
	}
	op, err := conn.StartSend(ctx, b.SGE(), b)
	if err == nil {
		op.Detach() // no goroutine waits for it
	}
	return err
}

// receive waits for a message.
func receive(ctx context.Context, conn *cm.Conn) (m message, err error) {
	received, err := conn.Receive(ctx)
	if err != nil {
		return m, err
	}
	defer received.Free() // posts the receive again
	err = json.Unmarshal(received.Bytes(), &m)
	return m, err
}
