// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"purerdma/cm"
)

// Client uses a store over one connection. One goroutine at a time may call its methods. After an
// error that is not an Error, the program must close the client.
type Client struct{ conn *cm.Conn }

// Dial connects to a Server.
func Dial(ctx context.Context, d cm.Dialer, address string) (*Client, error) {
	d.Receive = receives
	conn, err := d.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &Client{conn}, nil
}

// call sends a request and waits for its answer.
func (c *Client) call(ctx context.Context, r message) (string, error) {
	if err := r.send(ctx, c.conn); err != nil {
		return "", err
	}
	answer, err := receive(ctx, c.conn)
	if err == nil && answer.Error != "" {
		err = answer.Error
	}
	return answer.Value, err
}

// Get returns the value of a key, or ErrNotFound.
func (c *Client) Get(ctx context.Context, key string) (string, error) {
	return c.call(ctx, message{Op: "GET", Key: key})
}

// Put sets the value of a key.
func (c *Client) Put(ctx context.Context, key, value string) error {
	_, err := c.call(ctx, message{Op: "PUT", Key: key, Value: value})
	return err
}

// Delete deletes a key.
func (c *Client) Delete(ctx context.Context, key string) error {
	_, err := c.call(ctx, message{Op: "DELETE", Key: key})
	return err
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }
