// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"sync/atomic"
	"syscall"

	"purerdma/verbs"
)

// stage is what Resolved and Request share: a connection that is about to be, for
// whose QP the caller cares now.
type stage struct {
	ep       *endpoint
	qpConfig verbs.QPConfig
	used     atomic.Bool // connecting, accepting or rejecting was tried
	done     atomic.Bool // it has succeeded: the endpoint belongs to the Conn
}

var errUsed = fmt.Errorf("it has been connected, accepted or rejected already, or that has failed: %w", syscall.EINVAL)

// Device returns the device that the connection will run over. It is open for as
// long as this stage, or the Conn made from it.
func (s *stage) Device() *verbs.Device { return s.ep.device() }

// PD returns the device's default protection domain, which connections share.
func (s *stage) PD() (*verbs.PD, error) { return s.ep.id.defaultPD(opAllocPD, nil) }

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
	if !s.done.Load() {
		return s.ep.close()
	}
	return nil
}

// take returns the QP to connect or accept with: the one named, or the one that
// Init or QP chose. It may be called once.
func (s *stage) take(op string, qp *verbs.QP) (*verbs.QP, error) {
	if s.used.Swap(true) {
		return nil, s.ep.id.opError(op, errUsed)
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
