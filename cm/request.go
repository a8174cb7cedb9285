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

// Request is a peer's request for a connection. At this stage the passive side makes its QP
// and posts its first receives, before the peer can send. A Request must end in Accept, Reject
// or Close. Only one goroutine at a time may use it.
//
// A request that is not answered within [ListenConfig.HandshakeTimeout] is refused and closed.
// Accept and Reject then return an error that wraps os.ErrDeadlineExceeded. Other methods
// return an error that wraps net.ErrClosed.
//
// The kernel reports nothing about a request before it is accepted. If the peer has given up,
// Accept, or the call that makes the QP, returns a *DisconnectedError.
type Request struct {
	pendingConn
	param ConnParam
	data  []byte
}

// PeerParam returns the parameters of the request. Accept without parameters uses its depths,
// within the limits of the device.
func (r *Request) PeerParam() PeerParam { return r.param.asPeer() }

// PrivateData returns the private data that the peer sent. On InfiniBand and RoCE zeros follow
// it up to the size of the message, which is 56 bytes for connections and 180 for datagrams.
func (r *Request) PrivateData() []byte { return r.data }

// Done returns a channel that is closed when the request can no longer be accepted. This happens when it was
// closed or has expired, or its device was removed. After Accept it is the channel of [Conn.Done].
func (r *Request) Done() <-chan struct{} { return r.ep.over.Done() }

// Accept accepts the request (rdma_accept(3)) and waits for the peer's confirmation. iWARP has
// no confirmation, so on iWARP the peer must be the first to send. qp may be nil for the QP
// that Init or QP chose. param may be nil for the values in the request, within the limits of
// the device.
//
// Accept uses up the request. A failed Accept closes it, and rejects the peer if the peer
// still waits. This includes an *ArgumentError for parameters out of range and for private
// data that is too long (see [ConnParam]).
//
// A peer that connects and disconnects at once is accepted. [Conn.WaitRecv] then returns its
// messages, and after them io.EOF.
//
// ctx bounds the wait, and so does the listener's HandshakeTimeout, counted from
// [Listener.Accept].
func (r *Request) Accept(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	cdev.NeedContext(ctx)
	if r.ep.id.datagram() {
		return nil, r.ep.id.opError(opAccept, errDatagram)
	}
	conn, err := r.accept(ctx, qp, param)
	switch {
	case err == nil:
		r.countOutcome(accepted)
	case !errors.Is(err, errUsed) && !errors.Is(err, errLate):
		r.countOutcome(notAccepted)
	}
	return conn, err
}

func (r *Request) accept(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
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
		return nil, err
	}
	r.done.Store(true)
	r.ep.slot.established()
	conn := newConn(r.ep, qp)
	// The confirmation carries no data. The peer sent its data with the request.
	conn.peer = r.param
	conn.begin(&r.options)
	return conn, nil
}

// Establish calls Accept. It is part of [PendingConn].
func (r *Request) Establish(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	return r.Accept(ctx, qp, param)
}

// Reject refuses the request (rdma_reject(3)) and closes it. The peer gets privateData, up to
// 148 bytes on InfiniBand and RoCE. Private data that is too long is an error and leaves the
// request as it is. If the kernel does not destroy an object of the request, Reject returns that
// error, and Close tries again.
func (r *Request) Reject(privateData []byte) error {
	if err := r.ep.id.checkPrivateData(opReject, privateData); err != nil {
		return err
	}
	if err := r.claim(opReject); err != nil {
		return err
	}
	r.countOutcome(rejected)
	return alsoFailed(r.ep.id.Reject(privateData), r.ep.close())
}

var errNotConfirmed = fmt.Errorf("the peer has not confirmed within the listener's HandshakeTimeout: %w", os.ErrDeadlineExceeded)

// expireAt starts a timer. At the deadline it refuses the request unless it has been answered.
func (r *Request) expireAt(deadline time.Time) {
	r.deadline = deadline
	r.timer = time.AfterFunc(time.Until(deadline), func() {
		if r.phase.CompareAndSwap(connNew, connLate) {
			ch := r.ep.id.Channel()
			ch.noteRefusal(r.ep.id, RefusedHandshakeTimeout, nil)
			r.countOutcome(expired)
			_ = r.ep.id.Reject([]byte(RefusedHandshakeTimeout)) // the peer may have left
			// The program may still be filling its buffers. They are freed when it calls
			// Accept, Reject or Close.
			r.ep.id.expired.Store(true)
			r.ep.id.close.failed.Store(true)
			r.ep.close()
		}
	})
}
