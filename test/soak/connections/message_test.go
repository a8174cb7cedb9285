// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"purerdma/cm"
	"purerdma/msg"
	"purerdma/verbs"
)

// messageProtocols are package msg with its defaults, and with small windows.
var messageProtocols = []protocol{
	messageProtocol("messages", 20, msg.Options{}),
	messageProtocol("messages with small windows", 17, msg.Options{Slot: 512, Window: 2, Calls: 5}),
}

func messageProtocol(name string, bits int, o msg.Options) protocol {
	return protocol{
		name: name, bits: bits, kinds: callKinds,
		listen: func(ctx context.Context, lc cm.ListenConfig, addr string) (listener, error) {
			ln, err := (&msg.ListenConfig{Options: o, CM: lc}).Listen(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			return messageListener{ln}, nil
		},
		dial: func(ctx context.Context, d cm.Dialer, addr string) (connection, error) {
			c, err := (&msg.Dialer{Options: o, CM: d}).Dial(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			return &messageConn{Conn: c}, nil
		},
	}
}

// messageListener is the listener of package msg.
type messageListener struct{ *msg.Listener }

// accept implements listener.
func (ln messageListener) accept() (connection, error) {
	c, err := ln.Accept(context.Background())
	if err != nil {
		return nil, err
	}
	return &messageConn{Conn: c}, nil
}

// messageConn is a connection of package msg.
type messageConn struct {
	*msg.Conn
	mr *verbs.MR // memory to lend, nil before transfer
}

// Tags of messages that are no traffic.
const (
	tagSeed   = 1<<63 + iota
	tagFinish // a call after all others, with the numbers of the one-way messages
	tagBye    // the last message. Its receiver closes the connection
)

// sendSeed implements connection.
func (c *messageConn) sendSeed(seed uint64) error {
	return c.Send(context.Background(), tagSeed, binary.BigEndian.AppendUint64(nil, seed))
}

// receiveSeed implements connection.
func (c *messageConn) receiveSeed(patience time.Duration) (uint64, bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m, err := c.Receive(ctx)
	if err != nil {
		return 0, false, err
	}
	defer m.Free()
	if m.Tag() != tagSeed || len(m.Bytes()) != 8 {
		return 0, true, fmt.Errorf("Receive() = tag %#x and %d bytes, want tag %#x and 8 bytes", m.Tag(), len(m.Bytes()), uint64(tagSeed))
	}
	return binary.BigEndian.Uint64(m.Bytes()), true, nil
}

// abort implements connection.
func (c *messageConn) abort() { c.Conn.Close() }

// Close implements connection.
func (c *messageConn) Close() error {
	err := c.Conn.Close()
	if c.mr != nil {
		err = errors.Join(err, c.mr.Close())
	}
	return err
}
