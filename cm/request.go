// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// Request is a connection that a peer has asked for: the stage at which the
// passive side makes its QP and posts its first receives, before the peer can
// send. It must end in Accept, Reject or Close, and is used by one goroutine at a
// time. If that takes longer than [ListenConfig.HandshakeTimeout], the request is
// refused and closed; Accept and Reject then return an error that wraps
// os.ErrDeadlineExceeded, other methods one that wraps net.ErrClosed.
//
// Until it is accepted the kernel reports nothing about it: that the peer has
// given up shows as a *DisconnectedError of Accept, or of the call that makes the QP.
type Request struct {
	pendingConn
	param ConnParam
	data  []byte
}

// PeerParam returns the parameters of the request. Accept takes nil for its depths, as far as
// the device goes.
func (r *Request) PeerParam() PeerParam { return r.param.asPeer() }

// PrivateData returns what the peer sent: on InfiniBand and RoCE with zeros up to
// the size of the message, 56 bytes for connections and 180 for datagrams.
func (r *Request) PrivateData() []byte { return r.data }

// Accept accepts the request (rdma_accept(3)) and waits for the peer's confirmation. iWARP has
// no confirmation: there the peer must be the first to send. qp may be nil for the QP that
// Init or QP chose. param may be nil for the values that the peer asks for, within the
// limits of the device. Accept uses up the request: a failed Accept closes it, and rejects the
// peer if the peer still waits. This includes an *ArgumentError for parameters out of range
// and for private data that is too long (see [ConnParam]).
//
// A peer that connects and disconnects at once is accepted: [Conn.WaitRecv] returns its
// messages and then io.EOF.
//
// ctx bounds the wait, and so does the listener's HandshakeTimeout, counted from
// [Listener.Accept].
func (r *Request) Accept(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	cdev.NeedContext(ctx)
	if r.ep.id.datagram() {
		return nil, r.ep.id.opError(opAccept, errDatagram)
	}
	qp, err := r.take(opAccept, qp)
	if err != nil {
		return nil, err
	}
	if !r.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, r.deadline, errNotConfirmed)
		defer cancel()
	}
	if err := r.ep.await(ctx, opAccept, nil, func() error { return r.ep.id.Accept(param) }); err != nil {
		if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == errNotConfirmed {
			return nil, r.ep.id.opError(opAccept, errNotConfirmed) // no context of the caller has ended
		}
		return nil, err
	}
	r.done.Store(true)
	r.ep.slot.established()
	conn := newConn(r.ep, qp)
	// The confirmation carries nothing: what the peer sent, it sent before.
	conn.peer = r.param
	conn.startKeepAlive(r.keepAlive)
	return conn, nil
}

// Establish is Accept, for a [PendingConn].
func (r *Request) Establish(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	return r.Accept(ctx, qp, param)
}

// Reject refuses the request, with up to 148 bytes for the peer on InfiniBand and
// RoCE (rdma_reject(3)), and closes it. Private data that is too long is an error
// and leaves the request as it is.
func (r *Request) Reject(privateData []byte) error {
	if err := r.ep.id.checkPrivateData(opReject, privateData); err != nil {
		return err
	}
	if err := r.claim(opReject); err != nil {
		return err
	}
	err := r.ep.id.Reject(privateData)
	r.ep.close()
	return err
}

var errNotConfirmed = fmt.Errorf("the peer has not confirmed within the listener's HandshakeTimeout: %w", os.ErrDeadlineExceeded)

// expireAt has the request refused at a time if nobody has answered it by then.
func (r *Request) expireAt(deadline time.Time) {
	r.deadline = deadline
	r.timer = time.AfterFunc(time.Until(deadline), func() {
		if r.phase.CompareAndSwap(connNew, connLate) {
			ch := r.ep.id.Channel()
			ch.noteRefusal(r.ep.id, RefusedHandshakeTimeout, nil)
			_ = r.ep.id.Reject([]byte(RefusedHandshakeTimeout)) // the peer may have left
			// The program may be filling its buffers. They go when it calls Accept,
			// Reject or Close.
			r.ep.id.expired.Store(true)
			r.ep.id.close.failed.Store(true)
			r.ep.close()
		}
	})
}
