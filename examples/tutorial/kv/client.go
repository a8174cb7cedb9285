// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"purerdma/cm"
	"purerdma/pool"
	"purerdma/verbs"
)

// Client uses a store over one connection. Any number of goroutines may call its methods at a
// time.
type Client struct {
	conn  *cm.Conn
	table verbs.RemoteMemory // of the server
	reads *pool.Pool         // takes copies of slots
	free  chan int           // IDs that no request has
	// answers has a channel for the answer to each request in flight, by ID.
	answers   [window]chan message
	receiving chan struct{} // has an element while a call receives
}

// Dial connects to a Server.
func Dial(ctx context.Context, d cm.Dialer, address string) (*Client, error) {
	d.Receive = receives
	conn, err := d.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, free: make(chan int, window), receiving: make(chan struct{}, 1)}
	for id := range c.answers {
		c.answers[id] = make(chan message, 1)
		c.free <- id
	}
	data := conn.PrivateData() // zeros follow the table on RoCE
	err = c.table.UnmarshalBinary(data[:min(len(data), verbs.RemoteMemoryLen)])
	if err == nil && c.table.Length < tableSize { // Slice would panic
		err = errors.New("the server's table is too short")
	}
	if err == nil { // on iWARP the peer's device writes the data of a READ
		c.reads, err = pool.New(conn.PD(), pool.Config{SlabSize: 64 << 10, Access: verbs.LocalWrite | verbs.RemoteWrite})
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// Get returns the value of a key, or ErrNotFound. It reads the slot of the key from the server's
// table. If the slot does not have the value, it sends a request.
func (c *Client) Get(ctx context.Context, key string) (string, error) {
	b, err := c.reads.Get(ctx, slotSize)
	if err != nil {
		return "", err
	}
	defer b.Free()
	op, err := c.conn.StartRead(ctx, b.SGE(), c.table.Slice(offset(key), slotSize), b.Ref())
	if err != nil {
		return "", err
	}
	defer op.Abandon() // if ctx ends before the READ
	if err := op.Wait(ctx); err != nil {
		return "", err
	}
	if value, found := lookup(b.Bytes(), key); found {
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

// Close ends the connection. Waiting calls fail.
func (c *Client) Close() error {
	return errors.Join(c.conn.Close(), c.reads.Close())
}
