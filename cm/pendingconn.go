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

// PendingConn is a connection that does not exist yet, whose objects the program makes: a
// *Resolved on the connecting side, a *Request on the accepting side. Its methods are
// described there.
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
	// Establish is Resolved.Connect or Request.Accept.
	Establish(ctx context.Context, qp *verbs.QP, param *ConnParam) (*Conn, error)
	Close() error
}

var (
	_ PendingConn = (*Resolved)(nil)
	_ PendingConn = (*Request)(nil)
)

// pendingConn is the part that Resolved and Request share: a connection that does not exist
// yet, whose QP the program prepares.
type pendingConn struct {
	ep        *endpoint
	qpConfig  verbs.QPConfig
	keepAlive time.Duration // of the Conn, as the option says
	phase     atomic.Uint32
	done      atomic.Bool // connecting or accepting has succeeded: the endpoint belongs to the Conn
	deadline  time.Time   // of the handshake of a request, zero if there is none
	timer     *time.Timer // refuses a request at the deadline; nil if there is none
}

// Phases of a pendingConn.
const (
	connNew  uint32 = iota
	connUsed        // connecting, accepting or rejecting was tried
	connLate        // the deadline of the handshake passed before
)

var errUsed = fmt.Errorf("it has been connected, accepted or rejected already, or that has failed: %w", syscall.EINVAL)

// Device returns the device that the connection will run over. It is open for as
// long as the pending connection, or the Conn made from it.
func (p *pendingConn) Device() *verbs.Device { return p.ep.device() }

// PD returns the connection's protection domain, in which its buffers must be
// registered. It is the QP's if Init or QP has chosen one. Otherwise the option PD of the
// Dialer or ListenConfig chooses it. The default is a new protection domain for each
// connection. It is closed with the connection, or with the last memory region on it if
// that is closed later.
func (p *pendingConn) PD() (*verbs.PD, error) {
	if qp := p.ep.id.QP(); qp != nil {
		return qp.PD(), nil
	}
	return p.ep.id.connPD(opAllocPD, nil)
}

// Alloc registers new memory on PD that belongs to the connection: see [Conn.Alloc]. It is
// freed with the Conn, or when connecting, accepting or rejecting has returned without one, or
// by Close.
func (p *pendingConn) Alloc(size int, access verbs.Access) (*verbs.MR, error) {
	pd, err := p.PD()
	if err != nil {
		return nil, err
	}
	return p.ep.id.alloc(opAlloc, pd, size, access)
}

// ID returns the ID underneath. Its events are the library's to fetch.
func (p *pendingConn) ID() *ID { return p.ep.id }

// LocalAddr returns the connection's own address.
func (p *pendingConn) LocalAddr() Addr { return p.ep.id.LocalAddr() }

// RemoteAddr returns the peer's address.
func (p *pendingConn) RemoteAddr() Addr { return p.ep.id.RemoteAddr() }

// QP returns the QP of the connection to be, making the default one if Init has
// not been called.
func (p *pendingConn) QP() (*verbs.QP, error) { return p.ep.defaultQP(p.qpConfig) }

// Init readies a QP of the caller's for receives to be posted. The QP must belong
// to Device. It stays the caller's, which closes it after Connect or Accept has returned,
// before the Conn or after it.
func (p *pendingConn) Init(qp *verbs.QP) error {
	_, err := p.ep.use(qp, p.qpConfig)
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

// Close gives the pending connection up: a request that has not been answered is refused.
// After a successful Connect or Accept it does nothing: the Conn has taken over.
func (p *pendingConn) Close() error {
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.done.Load() {
		return nil
	}
	p.ep.id.ended.Store(true)
	return p.ep.close()
}

var errLate = fmt.Errorf("the request was refused when the listener's HandshakeTimeout had passed: %w", os.ErrDeadlineExceeded)

// claim admits the one call that connects, accepts or rejects.
func (p *pendingConn) claim(op string) error {
	if p.phase.CompareAndSwap(connNew, connUsed) {
		if p.timer != nil {
			p.timer.Stop()
		}
		return nil
	}
	if p.phase.Load() == connLate {
		p.Close()
		return p.ep.id.opError(op, errLate)
	}
	return p.ep.id.opError(op, errUsed)
}

// take returns the QP to connect or accept with: the one named, or the one that
// Init or QP chose. It may be called once.
func (p *pendingConn) take(op string, qp *verbs.QP) (*verbs.QP, error) {
	if err := p.claim(op); err != nil {
		return nil, err
	}
	if qp == nil {
		qp = p.ep.id.QP()
	}
	qp, err := p.ep.use(qp, p.qpConfig)
	if err != nil {
		p.Close()
	}
	return qp, err
}
