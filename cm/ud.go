// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"purerdma/abi"
	"purerdma/provider"
	"purerdma/verbs"
)

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
