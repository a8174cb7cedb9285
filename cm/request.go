// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"sync/atomic"

	"purerdma/verbs"
)

// Request is a connection that a peer has asked for: the stage at which the
// passive side makes its QP and posts its first receives, before the peer can
// send. It must end in Accept, Reject or Close, and is used by one goroutine at a
// time.
//
// Until it is accepted the kernel reports nothing about it: that the peer has
// given up shows in the failure of Accept.
type Request struct {
	ep       *endpoint
	param    ConnParam
	qpConfig verbs.QPConfig
	used     atomic.Bool // accepted, or tried
	done     atomic.Bool // accepted: the endpoint belongs to the Conn
}

// Param returns what the peer asks for. The depths can be used as they are.
func (r *Request) Param() ConnParam { return r.param }

// PrivateData returns what the peer sent: on InfiniBand and RoCE always 56 bytes,
// with zeros after what the peer gave.
func (r *Request) PrivateData() []byte { return r.param.PrivateData }

// Device returns the device that the request came by. It is open for as long as
// the Request, or the Conn made from it.
func (r *Request) Device() *verbs.Device { return r.ep.device() }

// PD returns the device's default protection domain, which connections share.
func (r *Request) PD() (*verbs.PD, error) { return r.ep.device().DefaultPD() }

// ID returns the ID underneath. Its events are the Request's.
func (r *Request) ID() *ID { return r.ep.id }

// LocalAddr returns the address that the peer asked.
func (r *Request) LocalAddr() Addr { return r.ep.id.LocalAddr() }

// RemoteAddr returns the peer's address.
func (r *Request) RemoteAddr() Addr { return r.ep.id.RemoteAddr() }

// QP returns the QP of the connection to be, making the default one if Init has
// not been called.
func (r *Request) QP() (*verbs.QP, error) { return r.ep.defaultQP(r.qpConfig) }

// Init readies a QP of the caller's for receives to be posted. The QP must belong
// to Device. Whoever made it closes it, after the Conn.
func (r *Request) Init(qp *verbs.QP) error {
	_, err := r.ep.use(qp, r.qpConfig)
	return err
}

// PostRecv posts a receive on the QP, as Conn.PostRecv does.
func (r *Request) PostRecv(wrID uint64, sg ...verbs.SGE) error {
	qp, err := r.QP()
	if err != nil {
		return err
	}
	return r.ep.postRecv(qp, wrID, sg)
}

// Accept accepts (rdma_accept(3)) and waits until the peer has confirmed. qp may
// be nil for the QP that Init or QP chose; param may be nil for what the peer
// asks for, as far as the device goes. Whatever comes of it, r can do nothing
// more: on failure it has been closed, and the peer been refused if it still
// waits.
func (r *Request) Accept(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	if r.used.Swap(true) {
		return nil, r.ep.id.opError(opAccept, errUsed)
	}
	if qp == nil {
		qp = r.ep.id.QP()
	}
	qp, err := r.ep.use(qp, r.qpConfig)
	if err != nil {
		r.Close()
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
	if err := checkPrivateData(opReject, privateData); err != nil {
		return r.ep.id.opError(opReject, err)
	}
	if r.used.Swap(true) {
		return r.ep.id.opError(opReject, errUsed)
	}
	err := r.ep.id.Reject(privateData)
	r.ep.close()
	return err
}

// Close refuses a request that has not been answered. After a successful Accept
// it does nothing: the Conn has taken over.
func (r *Request) Close() error {
	if !r.done.Load() {
		r.ep.close()
	}
	return nil
}
