// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"syscall"

	"purerdma/verbs"
)

var errHasSRQ = fmt.Errorf("the ID has an SRQ already: %w", syscall.EINVAL)

// CreateSRQ makes a shared receive queue on the ID's device (rdma_create_srq(3)). The QP that
// CreateQP makes afterwards takes its receives from it. pd may be nil for the PD of CreateQP.
// An ID has one SRQ. Closing the ID closes the SRQ. The SRQ is destroyed with its last QP. If
// QPs of the caller use it, the Close of the last of them destroys it.
func (id *ID) CreateSRQ(pd *verbs.PD, cfg verbs.SRQConfig) error {
	if err := id.enter(opCreateSRQ); err != nil {
		return err
	}
	defer id.leave()
	pd, err := id.connPD(opCreateSRQ, pd)
	if err != nil {
		return err
	}
	srq, err := pd.CreateSRQ(cfg)
	if err != nil {
		return id.opError(opCreateSRQ, err)
	}
	id.mu.Lock()
	had := id.srq != nil
	if !had {
		id.srq = srq
	}
	id.mu.Unlock()
	if had {
		return id.opError(opCreateSRQ, errors.Join(errHasSRQ, srq.Close()))
	}
	return nil
}

// SRQ returns the SRQ that CreateSRQ made, nil if there is none.
func (id *ID) SRQ() *verbs.SRQ {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.srq
}
