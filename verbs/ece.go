// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"net"

	"purerdma/provider"
)

// QueryECE returns the options of enhanced connection establishment that the device has granted the
// QP (ibv_query_ece(3)). After the QP's creation these are all options of the device. After SetECE
// and the next Modify they are the options that both the device and the peer have. Between these
// two calls there are none. If the driver has no ECE, the error wraps errors.ErrUnsupported.
//
// Package cm exchanges the options by itself.
func (q *QP) QueryECE() (ECE, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, err := q.withECE()
	if err != nil {
		return ECE{}, q.opError("query ECE of", err)
	}
	e, err := p.QueryECE()
	return e, q.opError("query ECE of", err)
}

// SetECE sets the options that the next Modify passes to the device (ibv_set_ece(3)). They are
// usually the options of the peer. With Options of 0, Modify passes none. The error wraps EINVAL
// for options of another vendor than the device's. It wraps errors.ErrUnsupported for the zero ECE,
// and if the device or its driver has no ECE.
func (q *QP) SetECE(e ECE) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, err := q.withECE()
	if err == nil && e.VendorID == 0 {
		err = fmt.Errorf("ECE options of no vendor: %w", errors.ErrUnsupported)
	}
	if err == nil {
		err = p.SetECE(e)
	}
	return q.opError("set ECE of", err)
}

var errNoECE = fmt.Errorf("enhanced connection establishment: %w", errors.ErrUnsupported)

// withECE returns the provider's QP, if its driver has ECE. The caller holds q.mu.
func (q *QP) withECE() (provider.ECEQP, error) {
	if q.closed {
		return nil, net.ErrClosed
	}
	p, ok := q.p.(provider.ECEQP)
	if !ok {
		return nil, errNoECE
	}
	return p, nil
}
