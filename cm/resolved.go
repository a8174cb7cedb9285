// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"sync/atomic"

	"purerdma/verbs"
)

// Resolved is a destination whose device and route are known: the stage at which
// the active side makes its QP and posts its first receives. It is used by one
// goroutine at a time.
type Resolved struct {
	ep       *endpoint
	qpConfig verbs.QPConfig
	used     atomic.Bool // connected, or tried
	done     atomic.Bool // connected: the endpoint belongs to the Conn
}

// Device returns the device that the route leads through. It is open for as long
// as the Resolved, or the Conn made from it.
func (r *Resolved) Device() *verbs.Device { return r.ep.device() }

// PD returns the device's default protection domain, which connections share.
func (r *Resolved) PD() (*verbs.PD, error) { return r.ep.device().DefaultPD() }

// ID returns the ID underneath. Its events are the Resolved's.
func (r *Resolved) ID() *ID { return r.ep.id }

// LocalAddr returns the address that the connection will have.
func (r *Resolved) LocalAddr() Addr { return r.ep.id.LocalAddr() }

// RemoteAddr returns the destination.
func (r *Resolved) RemoteAddr() Addr { return r.ep.id.RemoteAddr() }

// QP returns the QP of the connection to be, making the default one if Init has
// not been called.
func (r *Resolved) QP() (*verbs.QP, error) { return r.ep.defaultQP(r.qpConfig) }

// Init readies a QP of the caller's for receives to be posted. The QP must belong
// to Device. Whoever made it closes it, after the Conn.
func (r *Resolved) Init(qp *verbs.QP) error {
	_, err := r.ep.use(qp, r.qpConfig)
	return err
}

// PostRecv posts a receive on the QP, as Conn.PostRecv does.
func (r *Resolved) PostRecv(wrID uint64, sg ...verbs.SGE) error {
	qp, err := r.QP()
	if err != nil {
		return err
	}
	return r.ep.postRecv(qp, wrID, sg)
}

// Connect connects (rdma_connect(3)). qp may be nil for the QP that Init or QP
// chose; param may be nil for DefaultConnParam. Whatever comes of it, r can do
// nothing more: on failure it has been closed.
func (r *Resolved) Connect(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error) {
	if r.used.Swap(true) {
		return nil, r.ep.id.opError(opConnect, errUsed)
	}
	if qp == nil {
		qp = r.ep.id.QP()
	}
	qp, err := r.ep.use(qp, r.qpConfig)
	if err != nil {
		r.Close()
		return nil, err
	}
	if err := r.ep.await(ctx, opConnect, func() error { return r.ep.id.Connect(param) }); err != nil {
		return nil, err
	}
	r.done.Store(true)
	return newConn(r.ep, qp), nil
}

// Close gives up the destination. After a successful Connect it does nothing: the
// Conn has taken over.
func (r *Resolved) Close() error {
	if !r.done.Load() {
		r.ep.close()
	}
	return nil
}
