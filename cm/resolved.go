// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// Resolved is a destination whose device and route are known: the stage at which
// the active side makes its QP and posts its first receives. It is used by one
// goroutine at a time.
type Resolved struct {
	pendingConn
}

// Connect connects (rdma_connect(3)). qp may be nil for the QP that Init or QP
// chose; param may be nil for the defaults of ConnParam. Whatever comes of it, r can do
// nothing more: on failure it has been closed. On iWARP the Conn must be the first
// to send: see Dial.
func (r *Resolved) Connect(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	cdev.NeedContext(ctx)
	if r.ep.id.datagram() {
		return nil, r.ep.id.opError(opConnect, errDatagram)
	}
	qp, err := r.take(opConnect, qp)
	if err != nil {
		return nil, err
	}
	if err := r.ask(ctx, param); err != nil {
		return nil, err
	}
	r.done.Store(true)
	conn := newConn(r.ep, qp)
	conn.startKeepAlive(r.keepAlive)
	return conn, nil
}

// Establish is Connect, for a [PendingConn].
func (r *Resolved) Establish(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	return r.Connect(ctx, qp, param)
}

// ask sends the request, and waits for what comes of it.
func (r *Resolved) ask(ctx context.Context, param *ConnParam) error {
	err := r.ep.await(ctx, opConnect, connecting, func() error { return r.ep.id.Connect(param) })
	return hintOfSilence(err, r.ep.id.netNS)
}
