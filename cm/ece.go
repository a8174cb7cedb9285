// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"net"
	"syscall"

	"purerdma/abi"
	"purerdma/ucma"
)

// ECE is what a side offers for enhanced connection establishment (struct
// ibv_ece; rdma_set_local_ece(3)): options that only devices of one vendor
// understand. The zero ECE offers nothing.
type ECE struct {
	VendorID uint32 // the vendor's IEEE number
	Options  uint32 // what they mean is the vendor's affair
}

var errNoVendor = fmt.Errorf("no vendor is named: %w", syscall.EINVAL)

// SetLocalECE sets what Connect or Accept offers the peer
// (rdma_set_local_ece(3)). It is for an ID without a QP, whose user moves one of
// his own; an answer always carries the vendor that the request named.
func (id *ID) SetLocalECE(ece ECE) error {
	if !id.gate.enter() {
		return id.opError(opSetECE, net.ErrClosed)
	}
	defer id.gate.leave()
	if ece.VendorID == 0 {
		return id.opError(opSetECE, errNoVendor)
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.qp != nil {
		return &OpError{Op: opSetECE, Local: id.local, Remote: id.remote, Err: errHasQP}
	}
	id.localECE = ece
	return nil
}

// RemoteECE returns what the peer offered in its request or its response
// (rdma_get_remote_ece(3)), the zero ECE if nothing.
func (id *ID) RemoteECE() ECE {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.remoteECE
}

// RejectECE refuses a connect request because of what it offers, with private
// data as Reject (rdma_reject_ece(3)): the peer gets the reason
// RejectVendorOption.
func (id *ID) RejectECE(privateData []byte) error {
	return id.reject(privateData, RejectVendorOption)
}

// ece returns what goes into a request, or into the answer to one.
func (id *ID) ece(answer bool) abi.UcmECE {
	id.mu.Lock()
	defer id.mu.Unlock()
	if answer {
		return abi.UcmECE{VendorID: id.remoteECE.VendorID, AttrMod: id.localECE.Options}
	}
	return abi.UcmECE{VendorID: id.localECE.VendorID, AttrMod: id.localECE.Options}
}

// noteECE keeps what an event says that the peer offers.
func (id *ID) noteECE(raw *ucma.Event) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.remoteECE = ECE{VendorID: raw.ECE.VendorID, Options: raw.ECE.AttrMod}
}
