// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"purerdma/verbs"
)

// stage is what Resolved and Request share: a connection that is about to be, for
// whose QP the caller cares now.
type stage struct {
	ep        *endpoint
	qpConfig  verbs.QPConfig
	keepAlive time.Duration // of the Conn, as the option says
	phase     atomic.Uint32
	done      atomic.Bool // connecting or accepting has succeeded: the endpoint belongs to the Conn
	deadline  time.Time   // of the handshake of a request, zero if there is none
	timer     *time.Timer // refuses a request at the deadline; nil if there is none
}

// Phases of a stage.
const (
	stageNew  uint32 = iota
	stageUsed        // connecting, accepting or rejecting was tried
	stageLate        // the deadline of the handshake passed before
)

var errUsed = fmt.Errorf("it has been connected, accepted or rejected already, or that has failed: %w", syscall.EINVAL)

// Device returns the device that the connection will run over. It is open for as
// long as this stage, or the Conn made from it.
func (s *stage) Device() *verbs.Device { return s.ep.device() }

// PD returns the connection's protection domain, in which its buffers must be
// registered: that of its QP, if Init or QP has chosen one, and else the one that the
// option PD of the Dialer or ListenConfig returns. By default that is a new one for each
// connection. It is closed with the connection, or with the last memory region on it if
// that is closed later.
func (s *stage) PD() (*verbs.PD, error) {
	if qp := s.ep.id.QP(); qp != nil {
		return qp.PD(), nil
	}
	return s.ep.id.connPD(opAllocPD, nil)
}

// Alloc registers new memory on PD that belongs to the connection: see [Conn.Alloc]. It is
// freed with the Conn, or when connecting, accepting or rejecting has returned without one, or
// by Close.
func (s *stage) Alloc(size int, access verbs.Access) (*verbs.MR, error) {
	pd, err := s.PD()
	if err != nil {
		return nil, err
	}
	return s.ep.id.alloc(opAlloc, pd, size, access)
}

// ID returns the ID underneath. Its events are the library's to fetch.
func (s *stage) ID() *ID { return s.ep.id }

// LocalAddr returns the connection's own address.
func (s *stage) LocalAddr() Addr { return s.ep.id.LocalAddr() }

// RemoteAddr returns the peer's address.
func (s *stage) RemoteAddr() Addr { return s.ep.id.RemoteAddr() }

// QP returns the QP of the connection to be, making the default one if Init has
// not been called.
func (s *stage) QP() (*verbs.QP, error) { return s.ep.defaultQP(s.qpConfig) }

// Init readies a QP of the caller's for receives to be posted. The QP must belong
// to Device. Whoever made it closes it, after the Conn.
func (s *stage) Init(qp *verbs.QP) error {
	_, err := s.ep.use(qp, s.qpConfig)
	return err
}

// PostRecv posts a receive on the QP, as Conn.PostRecv does.
func (s *stage) PostRecv(wrID uint64, sg ...verbs.SGE) error {
	qp, err := s.QP()
	if err != nil {
		return err
	}
	return s.ep.postRecv(qp, wrID, sg)
}

// Close gives the stage up: a request that has not been answered is refused.
// After a successful Connect or Accept it does nothing: the Conn has taken over.
func (s *stage) Close() error {
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.done.Load() {
		return nil
	}
	s.ep.id.keepBuffers.Store(false)
	return s.ep.close()
}

var errLate = fmt.Errorf("the request was refused when the listener's HandshakeTimeout had passed: %w", os.ErrDeadlineExceeded)

// claim admits the one call that connects, accepts or rejects.
func (s *stage) claim(op string) error {
	if s.phase.CompareAndSwap(stageNew, stageUsed) {
		if s.timer != nil {
			s.timer.Stop()
		}
		return nil
	}
	if s.phase.Load() == stageLate {
		s.Close()
		return s.ep.id.opError(op, errLate)
	}
	return s.ep.id.opError(op, errUsed)
}

// take returns the QP to connect or accept with: the one named, or the one that
// Init or QP chose. It may be called once.
func (s *stage) take(op string, qp *verbs.QP) (*verbs.QP, error) {
	if err := s.claim(op); err != nil {
		return nil, err
	}
	if qp == nil {
		qp = s.ep.id.QP()
	}
	qp, err := s.ep.use(qp, s.qpConfig)
	if err != nil {
		s.Close()
	}
	return qp, err
}
