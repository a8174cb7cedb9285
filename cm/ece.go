// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"syscall"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/ucma"
	"purerdma/verbs"
)

var errNoVendor = fmt.Errorf("no vendor is named: %w", syscall.EINVAL)

// SetLocalECE sets the options of enhanced connection establishment that Connect or Accept
// offers the peer (rdma_set_local_ece(3)). It is for an ID without a QP, whose user moves the
// QP. An ID with a QP exchanges the options by itself. An answer always names the vendor of
// the request.
func (id *ID) SetLocalECE(ece verbs.ECE) error {
	if err := id.enter(opSetECE); err != nil {
		return err
	}
	defer id.leave()
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

// RemoteECE returns the options that the peer offered in its request or its response
// (rdma_get_remote_ece(3)). It returns the zero ECE if the peer offered none.
func (id *ID) RemoteECE() verbs.ECE {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.remoteECE
}

// RejectECE refuses a connect request because of the options that it offers
// (rdma_reject_ece(3)). The private data is as for Reject. The peer gets the reason
// RejectVendorOption.
func (id *ID) RejectECE(privateData []byte) error {
	return id.reject(privateData, RejectVendorOption)
}

// ece returns the options for a request, or for the answer to one.
func (id *ID) ece(answer bool) abi.UcmECE {
	id.mu.Lock()
	defer id.mu.Unlock()
	if answer {
		return abi.UcmECE{VendorID: id.remoteECE.VendorID, AttrMod: id.localECE.Options}
	}
	return abi.UcmECE{VendorID: id.localECE.VendorID, AttrMod: id.localECE.Options}
}

// noteECE stores the options that the peer offers with an event.
func (id *ID) noteECE(raw *ucma.Event) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.remoteECE = verbs.ECE{VendorID: raw.ECE.VendorID, Options: raw.ECE.AttrMod}
}

// qpECE returns the options that a QP's device has granted. It returns the zero ECE if the
// driver has none.
func qpECE(qp *verbs.QP) (verbs.ECE, error) {
	if _, ok := qp.Provider().(provider.ECEQP); !ok {
		return verbs.ECE{}, nil // without making an error for each connection
	}
	ece, err := qp.QueryECE()
	if errors.Is(err, errors.ErrUnsupported) {
		return verbs.ECE{}, nil
	}
	return ece, err
}

// initAgain moves a connecting QP to INIT once more, with the options of the peer's response.
func (id *ID) initAgain(qp *verbs.QP) error {
	id.mu.Lock()
	local, remote := id.localECE, id.remoteECE
	id.mu.Unlock()
	local, err := id.agreeECE(qp, local, remote)
	id.mu.Lock()
	id.localECE = local
	id.mu.Unlock()
	return err
}

// agreeECE moves a QP to INIT and passes the peer's options to the QP's device. It returns the
// options that both sides have.
//
// A peer may offer anything. Options of another vendor turn ECE off. librdmacm fails the
// connection if such options come with a response. Options that the device refuses also turn
// ECE off.
func (id *ID) agreeECE(qp *verbs.QP, local, remote verbs.ECE) (verbs.ECE, error) {
	initWith := func(options uint32) error {
		err := qp.SetECE(verbs.ECE{VendorID: local.VendorID, Options: options})
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		return id.modifyQP(qp, verbs.QPInit, nil)
	}
	if remote.VendorID != local.VendorID {
		remote.Options = 0
	}
	err := initWith(remote.Options)
	if err != nil && remote.Options != 0 {
		err = initWith(0)
	}
	if err != nil {
		return local, err
	}
	return qpECE(qp)
}
