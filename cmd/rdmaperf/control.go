// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"purerdma/cm"
	"purerdma/verbs"
)

// magic begins the private data of every connect request. The zero byte after it
// says that the connection is the one of control; else it is a token and the
// number of the QP.
const magic = "rdmaperf1"

// message is what the two sides say to each other, in turn, beside the traffic:
// one JSON object in a SEND on a connection of its own.
//
//	client                          server
//	Plan ->
//	                                <- Addr, RKey, Token
//	(a connection for each QP)
//	Size ->                                           (for each size)
//	                                <- an empty one: go
//	(traffic)
//	Sent ->
//	                                <- an empty one   (send, write_lat; then the
//	(one more on each QP)                              last messages)
//	                                <- Messages, Bytes
type message struct {
	Plan  *plan  `json:",omitempty"`
	Addr  uint64 `json:",omitempty"`
	RKey  uint32 `json:",omitempty"`
	Token uint64 `json:",omitempty"` // of the client's other connections
	Size  int    `json:",omitempty"`
	Sent  uint64 `json:",omitempty"` // messages of this size, all QPs
	// Messages and Bytes are what the server has received.
	Messages uint64 `json:",omitempty"`
	Bytes    uint64 `json:",omitempty"`
	Error    string `json:",omitempty"`
}

// maxMessage is how long one may be, in bytes.
const maxMessage = 4096

// control is the connection of control.
type control struct {
	conn *cm.Conn
	mr   *verbs.MR // what is sent, then two receives
}

// poster is where receives are posted before the connection is there.
type poster interface {
	PD() (*verbs.PD, error)
	PostRecv(id uint64, sg ...verbs.SGE) error
}

// prepare registers the memory and posts both receives.
func (c *control) prepare(p poster) error {
	pd, err := p.PD()
	if err != nil {
		return err
	}
	if c.mr, err = pd.Alloc(3*maxMessage, verbs.LocalWrite); err != nil {
		return err
	}
	for id := range uint64(2) {
		if err := p.PostRecv(id, c.slot(id)); err != nil {
			c.mr.Close()
			return err
		}
	}
	return nil
}

func (c *control) slot(id uint64) verbs.SGE {
	return c.mr.Slice(int(1+id)*maxMessage, maxMessage)
}

func (c *control) close() {
	if c.conn != nil {
		c.conn.Close()
	}
	c.mr.Close()
}

func (c *control) send(ctx context.Context, m message) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(b) > maxMessage {
		return fmt.Errorf("a message of %d bytes does not fit", len(b))
	}
	return c.conn.Send(ctx, c.mr.Slice(0, copy(c.mr.Bytes(), b)))
}

// receive waits for the other side's message. What that says of an error is one.
func (c *control) receive(ctx context.Context) (m message, err error) {
	wc, err := c.conn.WaitRecv(ctx)
	if errors.Is(err, io.EOF) {
		err = errors.New("the other side has left")
	}
	if err != nil {
		return m, err
	}
	if wc.ID > 1 || wc.ByteLen > maxMessage {
		return m, fmt.Errorf("completion of no receive: %+v", wc)
	}
	from := int(1+wc.ID) * maxMessage
	if err := json.Unmarshal(c.mr.Bytes()[from:from+int(wc.ByteLen)], &m); err != nil {
		return m, fmt.Errorf("the other side's message: %w", err)
	}
	if err := c.conn.PostRecv(wc.ID, c.slot(wc.ID)); err != nil {
		return m, err
	}
	if m.Error != "" {
		return m, fmt.Errorf("the other side: %q", m.Error)
	}
	return m, nil
}

// ask sends a message and waits for the answer.
func (c *control) ask(ctx context.Context, m message) (message, error) {
	if err := c.send(ctx, m); err != nil {
		return m, err
	}
	return c.receive(ctx)
}
