// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"fmt"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/cdev"
	"purerdma/provider"
	"purerdma/verbs"
)

var (
	errDatagram   = fmt.Errorf("the ID is for datagrams: use Resolve, Resolved.Lookup and Request.Answer: %w", syscall.EOPNOTSUPP)
	errConnection = fmt.Errorf("the ID is for connections: use Resolved.Connect or Request.Accept: %w", syscall.EOPNOTSUPP)
)

// Lookup queries the peer's connection manager for the QP that serves the address
// (rdma_connect(3) on RDMA_PS_UDP). The destination must be of the network "udp". The result
// describes where to send. Use its AHAttr to make an AH. r and its QP stay as they are until
// Close. Lookup can be called once. A call whose private data is too long does not count.
//
// param may be nil. Lookup uses only its private data, which the peer gets with the request.
// If the peer refuses, or no service listens there, the error is an *UnreachableError. If the
// peer does not answer, only ctx and the kernel's limit of 69 seconds end the wait.
func (r *Resolved) Lookup(ctx context.Context, param *ConnParam) (UDParam, error) {
	cdev.NeedContext(ctx)
	if !r.ep.id.datagram() {
		return UDParam{}, r.ep.id.opError(opConnect, errConnection)
	}
	if err := r.ep.id.checkParam(opConnect, param); err != nil {
		return UDParam{}, err
	}
	if _, err := r.take(opConnect, nil); err != nil {
		return UDParam{}, err
	}
	if err := r.ask(ctx, param); err != nil {
		return UDParam{}, err
	}
	return r.ep.peerUD, nil
}

// Answer sends the number of a datagram service's QP to the peer that requested it
// (rdma_accept(3) on RDMA_PS_UDP). The QP is qp, or if that is nil the QP that Init or QP
// chose, or the QP whose number is in param. param may be nil. Answer uses only its private
// data, and its QP number if there is no QP.
//
// Private data that is too long is an error and leaves the request as it is.
//
// The answer carries the QP's number and its queue key, which QP.Query returns. Each message
// that the QP receives has a GRH of 40 bytes in front, so receives need 40 bytes more.
// [verbs.Device.AHAttrFromWC] returns the address for a reply from the GRH.
//
// r stays open until Close. A QP that r owns stays open as long as r. A service with one QP
// for all peers can close r at once.
func (r *Request) Answer(qp *verbs.QP, param *ConnParam) error {
	id := r.ep.id
	if !id.datagram() {
		return id.opError(opAccept, errConnection)
	}
	if err := id.checkParam(opAccept, param); err != nil {
		return err
	}
	if qp == nil && id.QP() == nil && param != nil && param.QPNum != 0 {
		if err := r.claim(opAccept); err != nil {
			return err
		}
	} else if _, err := r.take(opAccept, qp); err != nil {
		return err
	}
	if err := id.Accept(param); err != nil {
		return alsoFailed(err, r.Close())
	}
	r.ep.slot.established()
	return nil
}

// UDParam describes a datagram destination (struct rdma_ud_param, rdma_cma.h). In
// EventEstablished it is the peer, and in EventMulticastJoin the group.
type UDParam struct {
	// PrivateData holds the private data of the peer, including the zeros up to the size of
	// the message. It is nil if the peer sent none.
	PrivateData []byte
	// AHAttr holds the attributes of an AH that reaches QPN.
	AHAttr verbs.AHAttr
	QPN    uint32 // the QP to send to
	QKey   uint32 // the queue key to send with
}

func udParamFromKernel(k *abi.UcmUDParam) UDParam {
	p := UDParam{AHAttr: provider.AHAttrFromKernel(&k.AHAttr), QPN: k.QPNum, QKey: k.QKey}
	if k.PrivateDataLen > 0 {
		p.PrivateData = append([]byte(nil), k.PrivateData[:k.PrivateDataLen]...)
	}
	return p
}

// readyDatagram moves a QP that needs no peer to the state in which it sends and receives. The
// connection manager has attributes only for INIT. These are the port and the queue key.
func (id *ID) readyDatagram(qp *verbs.QP) error {
	if err := id.modifyQP(qp, verbs.QPInit, nil); err != nil {
		return err
	}
	if err := qp.Modify(&verbs.QPAttr{State: verbs.QPRTR}, verbs.QPAttrState); err != nil {
		return err
	}
	return qp.Modify(&verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState|verbs.QPAttrSQPSN)
}
