// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"syscall"

	"purerdma/verbs"
)

var errHasSRQ = fmt.Errorf("the ID has an SRQ already: %w", syscall.EINVAL)

// CreateSRQ makes a shared receive queue on the ID's device (rdma_create_srq(3)),
// which the QP that CreateQP makes then takes its receives from. pd may be nil for
// the PD of CreateQP. Close of the ID closes the SRQ, which is destroyed with its last QP: if
// QPs of the caller's use it, with the Close of the last of them. An ID has one SRQ.
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
