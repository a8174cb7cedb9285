// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"purerdma/cm"
	"purerdma/verbs"
)

// magic begins the private data of every connect request. On the control connection a zero byte
// follows. On the other connections a token and the number of the QP follow.
const magic = "rdmaperf1"

// cmControl implements control over a QP that the connection manager has connected.
type cmControl struct {
	conn *cm.Conn
	mr   *verbs.MR // the buffer for sends, then two receive buffers
}

// poster posts receives before the connection is established.
type poster interface {
	PD() (*verbs.PD, error)
	PostRecv(id uint64, sg ...verbs.SGE) error
}

// prepare registers the memory and posts both receives.
func (c *cmControl) prepare(p poster) error {
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

func (c *cmControl) slot(id uint64) verbs.SGE {
	return c.mr.Slice(int(1+id)*maxMessage, maxMessage)
}

func (c *cmControl) done() <-chan struct{} { return c.conn.Done() }

func (c *cmControl) close() {
	if c.conn != nil {
		c.conn.Close()
	}
	c.mr.Close()
}

func (c *cmControl) send(ctx context.Context, m message) error {
	b, err := encode(m)
	if err != nil {
		return err
	}
	return c.conn.Send(ctx, c.mr.Slice(0, copy(c.mr.Bytes(), b)))
}

func (c *cmControl) receive(ctx context.Context) (m message, err error) {
	wc, err := c.conn.WaitRecv(ctx)
	if errors.Is(err, io.EOF) {
		err = errLeft
	}
	if err != nil {
		return m, err
	}
	if wc.ID > 1 || wc.ByteLen > maxMessage {
		return m, fmt.Errorf("completion of no receive: %+v", wc)
	}
	from := int(1+wc.ID) * maxMessage
	m, err = decode(c.mr.Bytes()[from : from+int(wc.ByteLen)])
	if perr := c.conn.PostRecv(wc.ID, c.slot(wc.ID)); err == nil {
		err = perr
	}
	return m, err
}

var errLeft = errors.New("the other side has left")
