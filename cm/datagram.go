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
	errDatagram   = fmt.Errorf("datagrams make no connection: Resolve and Resolved.Lookup find the QP to send to, and Request.Answer tells it: %w", syscall.EOPNOTSUPP)
	errConnection = fmt.Errorf("the ID is for connections: use Resolved.Connect or Request.Accept: %w", syscall.EOPNOTSUPP)
)

// Lookup asks the other side's connection manager which QP serves the address,
// for a destination of the network "udp" (rdma_connect(3) on RDMA_PS_UDP). The
// answer says where to send: make an AH of it. r and its QP stay what they are
// until Close; Lookup can be called once, if private data that is too long is not
// counted.
//
// param may be nil; of it only the private data counts, which the other side gets
// with the request. If that refuses, or nobody listens there, the error is an
// *UnreachableError. Nothing bounds the wait for one that is silent but ctx and
// the kernel's 69 seconds.
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

// Answer tells who asked for a datagram service which QP it is
// (rdma_accept(3) on RDMA_PS_UDP): qp, or with nil the one that Init or QP chose,
// or the one whose number is in param. param may be nil; of it only the private
// data counts, and the QP number where there is no QP.
//
// Private data that is too long is an error and leaves the request as it is.
//
// The answer carries the QP's number and its queue key, which QP.Query tells. What
// comes to the QP has a GRH of 40 bytes in front: receives need that much more, and
// [verbs.Device.AHAttrFromWC] makes the way back of it.
//
// r, and the QP if it is r's own, stay until Close. A service that has one QP for
// all who ask can close r at once.
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
		r.Close()
		return err
	}
	r.ep.slot.established()
	return nil
}

// UDParam is what an event says about a datagram destination (struct
// rdma_ud_param, rdma_cma.h): that of the peer in EventEstablished, that of the
// group in EventMulticastJoin.
type UDParam struct {
	// PrivateData is what the peer sent, zeros up to the size of the message
	// included; nil if nothing.
	PrivateData []byte
	// AHAttr is the address to make an AH of, with which QPN is reached.
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

// readyDatagram takes a QP that needs no peer to the state in which it sends and
// receives. Only INIT has attributes that the connection manager knows: the port
// and the queue key.
func (id *ID) readyDatagram(qp *verbs.QP) error {
	if err := id.modifyQP(qp, verbs.QPInit, nil); err != nil {
		return err
	}
	if err := qp.Modify(&verbs.QPAttr{State: verbs.QPRTR}, verbs.QPAttrState); err != nil {
		return err
	}
	return qp.Modify(&verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState|verbs.QPAttrSQPSN)
}
