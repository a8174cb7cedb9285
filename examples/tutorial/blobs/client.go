// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"

	"purerdma/msg"
)

// Client is a client of a Server. Any number of goroutines may use it at a time.
type Client struct {
	conn *msg.Conn
}

// Size returns the length of a blob.
func (c *Client) Size(ctx context.Context, key string) (uint64, error) {
	reply, err := c.conn.Call(ctx, opSize, []byte(key))
	if err != nil {
		return 0, err
	}
	defer reply.Free()
	return reply.Tag(), nil
}

// Delete deletes a blob.
func (c *Client) Delete(ctx context.Context, key string) error {
	reply, err := c.conn.Call(ctx, opDelete, []byte(key))
	if err != nil {
		return err
	}
	reply.Free()
	return nil
}

// Put stores a blob. The server reads blob during the call only.
func (c *Client) Put(ctx context.Context, key string, blob []byte) error {
	reply, err := c.conn.Do(ctx, &msg.Request{Tag: opPut, Data: []byte(key), Read: msg.Memory{Bytes: blob}})
	if err != nil {
		return err
	}
	reply.Free()
	return nil
}

// Get returns a blob. The server writes it into memory that the call lends.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	n, err := c.Size(ctx, key)
	if err != nil {
		return nil, err
	}
	if n > maxBlob {
		return nil, fmt.Errorf("a blob of %d bytes", n)
	}
	blob := make([]byte, n)
	reply, err := c.conn.Do(ctx, &msg.Request{Tag: opGet, Data: []byte(key), Write: msg.Memory{Bytes: blob}})
	if err != nil {
		return nil, err
	}
	defer reply.Free()
	if reply.Tag() != n {
		return nil, fmt.Errorf("the blob has changed from %d to %d bytes", n, reply.Tag())
	}
	return blob, nil
}

// List calls f for each key, until f returns false.
func (c *Client) List(ctx context.Context, f func(key string) bool) error {
	replies, err := c.conn.Stream(ctx, &msg.Request{Tag: opList, Parts: 16})
	if err != nil {
		return err
	}
	defer replies.Close() // cancels the call, unless it has ended
	for {
		m, err := replies.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		key := string(m.Bytes())
		m.Free() // lets the server send another one
		if key != "" && !f(key) {
			return nil
		}
	}
}
