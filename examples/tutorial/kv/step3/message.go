// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"

	"purerdma/cm"
	"purerdma/inflight"
)

// receives configures the receives of both sides. One request or answer is in flight at a time.
var receives = &inflight.ReceiveConfig{Size: 1024, Depth: 1}

// message is a request or its answer.
type message struct {
	Op         string `json:",omitempty"` // GET, PUT or DELETE
	Key, Value string `json:",omitempty"`
	Error      Error  `json:",omitempty"` // of an answer
}

// Error is an error that the server reports.
type Error string

func (e Error) Error() string { return string(e) }

// ErrNotFound reports that a key has no value.
const ErrNotFound Error = "no such key"

// send sends a message, and waits until it has arrived.
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
	defer b.Free()
	return conn.Send(ctx, b.SGE())
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
