// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"purerdma/cm"
	"purerdma/verbs"
)

// Client uses a store over one connection. One goroutine at a time may call its methods. After an
// error that is not an Error, the program must close the client.
type Client struct {
	conn  *cm.Conn
	table verbs.RemoteMemory // of the server
	slot  *verbs.MR          // takes a copy of a slot
}

// Dial connects to a Server.
func Dial(ctx context.Context, d cm.Dialer, address string) (*Client, error) {
	d.Receive = receives
	conn, err := d.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn}
	data := conn.PrivateData() // zeros follow the table on RoCE
	err = c.table.UnmarshalBinary(data[:min(len(data), verbs.RemoteMemoryLen)])
	if err == nil && c.table.Length < tableSize { // Slice would panic
		err = errors.New("the server's table is too short")
	}
	if err == nil { // on iWARP the peer's device writes the data of a READ
		c.slot, err = conn.Alloc(slotSize, verbs.LocalWrite|verbs.RemoteWrite)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
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

// Get returns the value of a key, or ErrNotFound. It reads the slot of the key from the server's
// table. If the slot does not have the value, it sends a request.
func (c *Client) Get(ctx context.Context, key string) (string, error) {
	err := c.conn.Read(ctx, c.slot.SGE(), c.table.Slice(offset(key), slotSize))
	if err != nil {
		return "", err
	}
	if value, found := lookup(c.slot.Bytes(), key); found {
		return value, nil
	}
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
