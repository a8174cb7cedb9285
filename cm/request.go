// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// Request is a connection that a peer has asked for: the stage at which the
// passive side makes its QP and posts its first receives, before the peer can
// send. It must end in Accept, Reject or Close, and is used by one goroutine at a
// time.
//
// Until it is accepted the kernel reports nothing about it: that the peer has
// given up shows as a *PeerGoneError of Accept, or of the making of the QP.
type Request struct {
	stage
	param ConnParam
	data  []byte
}

// Param returns what the peer asks for. Accept takes nil for the depths that it
// asks for, as far as the device goes.
func (r *Request) Param() ConnParam { return r.param }

// PrivateData returns what the peer sent: on InfiniBand and RoCE with zeros up to
// the size of the message, 56 bytes for connections and 180 for datagrams.
func (r *Request) PrivateData() []byte { return r.data }

// Accept accepts (rdma_accept(3)) and waits until the peer has confirmed, which it
// does not do on iWARP: there it must be the first to send. qp may
// be nil for the QP that Init or QP chose; param may be nil for what the peer
// asks for, as far as the device goes. Whatever comes of it, r can do nothing
// more: on failure it has been closed, and the peer been refused if it still
// waits. That is so of parameters that are out of range, too, a *ParamError, and of
// private data that is too long, a *PrivateDataError with the bytes that there were and
// the most there may be ([ConnParam]): unlike Reject, Accept leaves nothing as it was.
func (r *Request) Accept(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	cdev.NeedContext(ctx)
	if r.ep.id.datagram() {
		return nil, r.ep.id.opError(opAccept, errDatagram)
	}
	qp, err := r.take(opAccept, qp)
	if err != nil {
		return nil, err
	}
	if err := r.ep.await(ctx, opAccept, func() error { return r.ep.id.Accept(param) }); err != nil {
		return nil, err
	}
	r.done.Store(true)
	conn := newConn(r.ep, qp)
	// The confirmation carries nothing: what the peer sent, it sent before.
	conn.peer = r.param
	return conn, nil
}

// Reject refuses the request, with up to 148 bytes for the peer on InfiniBand and
// RoCE (rdma_reject(3)), and closes it. Private data that is too long is an error
// and leaves the request as it is.
func (r *Request) Reject(privateData []byte) error {
	if err := r.ep.id.checkPrivateData(opReject, privateData); err != nil {
		return err
	}
	if r.used.Swap(true) {
		return r.ep.id.opError(opReject, errUsed)
	}
	err := r.ep.id.Reject(privateData)
	r.ep.close()
	return err
}
