// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"purerdma/verbs"
)

// PendingConn is a connection that does not exist yet. The program makes its objects. It is a
// *Resolved on the connecting side and a *Request on the accepting side. Those types describe
// its methods.
type PendingConn interface {
	ID() *ID
	Device() *verbs.Device
	LocalAddr() Addr
	RemoteAddr() Addr
	PD() (*verbs.PD, error)
	Alloc(size int, access verbs.Access) (*verbs.MR, error)
	QP() (*verbs.QP, error)
	Init(qp *verbs.QP) error
	PostRecv(wrID uint64, sg ...verbs.SGE) error
	// Establish calls Resolved.Connect or Request.Accept.
	Establish(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error)
	Close() error
}

var (
	_ PendingConn = (*Resolved)(nil)
	_ PendingConn = (*Request)(nil)
)

// pendingConn is the common part of Resolved and Request, before the connection exists. The
// program prepares its QP.
type pendingConn struct {
	ep       *endpoint
	options  connOptions
	phase    atomic.Uint32
	done     atomic.Bool     // the Conn has taken over the endpoint
	deadline time.Time       // of a request's handshake, zero if there is none
	timer    *time.Timer     // refuses a request then. May be nil.
	accepts  *acceptCounters // of the listener. nil if the connection is no request.
	outcome  atomic.Bool     // it was counted
}

// Phases of a pendingConn.
const (
	connNew  uint32 = iota
	connUsed        // a call has connected, accepted or rejected, or has failed
	connLate        // the deadline of the handshake passed before such a call
)

var errUsed = fmt.Errorf("an earlier Connect, Accept or Reject has used it: %w", syscall.EINVAL)

// Device returns the device that the connection will run over. It stays open as long as the
// pending connection or the Conn that is made from it.
func (p *pendingConn) Device() *verbs.Device { return p.ep.device() }

// PD returns the connection's protection domain, in which its buffers must be registered. If
// Init or QP has chosen a QP, it is the PD of that QP. Otherwise the option PD of the Dialer
// or ListenConfig chooses it. The default is a new protection domain for each connection. It
// is closed with the connection, or with the last memory region on it if that is closed later.
func (p *pendingConn) PD() (*verbs.PD, error) {
	if qp := p.ep.id.QP(); qp != nil {
		return qp.PD(), nil
	}
	return p.ep.id.connPD(opAllocPD, nil)
}

// Alloc registers new memory on PD that belongs to the connection: see [Conn.Alloc]. The
// memory is freed with the Conn. If connecting, accepting or rejecting returns no Conn, the
// memory is freed on return. Close also frees it.
func (p *pendingConn) Alloc(size int, access verbs.Access) (*verbs.MR, error) {
	pd, err := p.PD()
	if err != nil {
		return nil, err
	}
	return p.ep.id.alloc(opAlloc, pd, size, access)
}

// ID returns the ID of the connection. Only the library may fetch its events.
func (p *pendingConn) ID() *ID { return p.ep.id }

// LocalAddr returns the connection's own address.
func (p *pendingConn) LocalAddr() Addr { return p.ep.id.LocalAddr() }

// RemoteAddr returns the peer's address.
func (p *pendingConn) RemoteAddr() Addr { return p.ep.id.RemoteAddr() }

// QP returns the QP of the future connection. It makes the default QP if Init has not been
// called.
func (p *pendingConn) QP() (*verbs.QP, error) { return p.ep.defaultQP(p.options.qp) }

// Init prepares a QP of the caller, so that receives can be posted. The QP must belong to
// Device. The caller keeps the QP, and closes it after Connect or Accept has returned, before
// the Conn or after it.
func (p *pendingConn) Init(qp *verbs.QP) error {
	_, err := p.ep.use(qp, p.options.qp)
	return err
}

// PostRecv posts a receive on the QP, as Conn.PostRecv does.
func (p *pendingConn) PostRecv(wrID uint64, sg ...verbs.SGE) error {
	qp, err := p.QP()
	if err != nil {
		return err
	}
	return p.ep.postRecv(qp, wrID, sg)
}

// Close abandons the pending connection, and refuses a request that has not been answered.
// After a successful Connect or Accept it does nothing, because the Conn has taken over.
func (p *pendingConn) Close() error {
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.done.Load() {
		return nil
	}
	if p.phase.Load() == connNew {
		p.countOutcome(rejected)
	}
	p.ep.id.ended.Store(true)
	return p.ep.close()
}

var errLate = fmt.Errorf("the request was refused when the listener's HandshakeTimeout had passed: %w", os.ErrDeadlineExceeded)

// claim admits only one call that connects, accepts or rejects.
func (p *pendingConn) claim(op string) error {
	if p.phase.CompareAndSwap(connNew, connUsed) {
		if p.timer != nil {
			p.timer.Stop()
		}
		return nil
	}
	if p.phase.Load() == connLate {
		return alsoFailed(p.ep.id.opError(op, errLate), p.Close())
	}
	return p.ep.id.opError(op, errUsed)
}

// take returns the QP to connect or accept with. It is qp, or if that is nil the QP that Init
// or QP chose. take may be called once.
func (p *pendingConn) take(op string, qp *verbs.QP) (*verbs.QP, error) {
	if err := p.claim(op); err != nil {
		return nil, err
	}
	if qp == nil {
		qp = p.ep.id.QP()
	}
	qp, err := p.ep.use(qp, p.options.qp)
	if err == nil {
		err = p.startReceives(qp)
	}
	if err != nil {
		return nil, alsoFailed(err, p.Close())
	}
	return qp, nil
}
