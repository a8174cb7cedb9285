// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// HelloSize is the size of the messages between rdma_client and rdma_server, in bytes.
const HelloSize = 16

// disconnectGrace is the time that a side waits for the peer's answer to its disconnect.
const disconnectGrace = 3 * time.Second

// HelloQP returns the QP configuration of both sides, for one inline message at a time.
func HelloQP() verbs.QPConfig {
	return verbs.QPConfig{
		Type: verbs.RC, SignalAll: true,
		Cap: verbs.QPCap{SendWR: 1, RecvWR: 1, SendSGE: 1, RecvSGE: 1, Inline: HelloSize},
	}
}

// Hello is one side of the exchange with its buffers and its connection.
type Hello struct {
	u    *UI
	recv *verbs.MR
	send *verbs.MR // nil if the message goes inline
	conn *cm.Conn
}

// Stage contains the common methods of cm.Resolved and cm.Request.
type Stage interface {
	PD() (*verbs.PD, error)
	QP() (*verbs.QP, error)
	PostRecv(wrID uint64, sg ...verbs.SGE) error
}

// NewHello creates the buffers for a pending connection and posts the receive. It prints a
// failure under the name of the C library's call.
func NewHello(u *UI, s Stage) (*Hello, error) {
	h := &Hello{u: u}
	qp, err := s.QP()
	if err != nil {
		u.Perror("rdma_create_ep", err)
		return nil, err
	}
	inline := qp.Cap().Inline >= HelloSize
	if !inline {
		u.Printf("%s: device doesn't support IBV_SEND_INLINE, using sge sends\n", u.Name)
	}
	if err := h.register(s, inline); err != nil {
		h.Close()
		return nil, err
	}
	if err := s.PostRecv(0, h.recv.SGE()); err != nil {
		u.Perror("rdma_post_recv", err)
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *Hello) register(s Stage, inline bool) error {
	pd, err := s.PD()
	if err == nil {
		h.recv, err = pd.Alloc(HelloSize, verbs.LocalWrite)
	}
	if err != nil {
		h.u.Perror("rdma_reg_msgs for recv_msg", err)
		return err
	}
	if inline {
		return nil
	}
	if h.send, err = pd.Alloc(HelloSize, verbs.LocalWrite); err != nil {
		h.u.Perror("rdma_reg_msgs for send_msg", err)
	}
	return err
}

// Connected sets the connection, which Close then closes.
func (h *Hello) Connected(conn *cm.Conn) { h.conn = conn }

// Send sends the message and waits until the peer has received it.
func (h *Hello) Send(ctx context.Context) error {
	var message [HelloSize]byte
	var b verbs.Batch
	b.Reset(h.conn.QP())
	if h.send == nil {
		b.SendInline(1, message[:], verbs.SendSignaled)
	} else {
		b.Send(1, h.send.SGE(), verbs.SendSignaled)
	}
	if err := b.Post(); err != nil {
		err = h.conn.Explain(err)
		h.u.Perror("rdma_post_send", err)
		return err
	}
	var wc [1]verbs.WC
	_, err := h.conn.QP().SendCQ().Wait(ctx, wc[:])
	if err == nil {
		err = wc[0].Err()
	}
	if err != nil {
		err = h.conn.Explain(err)
		h.u.Perror("rdma_get_send_comp", err)
	}
	return err
}

// Receive waits for the peer's message. A message of the wrong size is an error.
func (h *Hello) Receive(ctx context.Context) error {
	wc, err := h.conn.WaitRecv(ctx)
	if err == nil && wc.ByteLen != HelloSize {
		err = &HelloSizeError{Size: wc.ByteLen}
	}
	if err != nil {
		h.u.Perror("rdma_get_recv_comp", err)
	}
	return err
}

// HelloSizeError reports a message of the wrong size.
type HelloSizeError struct{ Size uint32 }

func (e *HelloSizeError) Error() string {
	return fmt.Sprintf("the peer's message has %d bytes, want %d", e.Size, HelloSize)
}

// Close disconnects, if there is a connection, and releases everything.
func (h *Hello) Close() error {
	var errs []error
	if h.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), disconnectGrace)
		defer cancel()
		// The connection has ended even without an answer.
		h.conn.Disconnect(ctx)
		errs = append(errs, h.conn.Close())
	}
	for _, mr := range []*verbs.MR{h.recv, h.send} {
		if mr != nil {
			errs = append(errs, mr.Close())
		}
	}
	return errors.Join(errs...)
}
