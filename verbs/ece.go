// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"net"

	"purerdma/provider"
)

// QueryECE returns the options of enhanced connection establishment that the device has granted
// the QP (ibv_query_ece(3)). After the QP's creation these are all options of the device. After
// SetECE and the next Modify they are those that the device has in common with the peer. Between
// these two calls there are none. Where the driver has no ECE, the error wraps errors.ErrUnsupported.
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

// SetECE sets the options that the next Modify gives the device (ibv_set_ece(3)), as a rule those
// of the peer. With Options of 0 the device is given none. For options of another vendor than the
// device's the error wraps EINVAL. Where the device or its driver has no ECE, and for the zero
// ECE, it wraps errors.ErrUnsupported.
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
