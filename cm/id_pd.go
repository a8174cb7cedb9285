// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"net"

	"purerdma/verbs"
)

// connPD returns pd, or if that is nil the PD of the ID: the one that its Dialer or
// ListenConfig chooses, or one of its own, which is made when it is first needed and
// released with the ID.
func (id *ID) connPD(op string, pd *verbs.PD) (*verbs.PD, error) {
	if !id.gate.enter() {
		return nil, id.opError(op, net.ErrClosed)
	}
	defer id.gate.leave()
	dev := id.Device()
	if dev == nil {
		return nil, id.noDevice(op)
	}
	if pd != nil {
		return pd, nil
	}
	id.pdMu.Lock()
	defer id.pdMu.Unlock()
	if id.pd != nil {
		return id.pd, nil
	}
	choose := id.pdOf
	if choose == nil {
		choose = (*verbs.Device).AllocPD
	}
	pd, err := choose(dev)
	if err != nil {
		return nil, id.opError(op, err)
	}
	id.pd, id.ownPD = pd, id.pdOf == nil
	return pd, nil
}
