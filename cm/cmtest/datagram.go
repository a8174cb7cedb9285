// SPDX-License-Identifier: Apache-2.0

package cmtest

import (
	"syscall"

	"purerdma/abi"
)

// Statuses of a SIDR_REP that refuses a request.
const (
	sidrNoService = 1
	sidrReject    = 2
)

// datagramQKey is the queue key of datagram IDs with an IP address (RDMA_UDP_QKEY).
const datagramQKey = 0x01234567

// answerDatagram implements ACCEPT on a datagram ID.
func (k *Kernel) answerDatagram(id *id, c *abi.UcmAccept) error {
	if id.state != reqReceived || c.ConnParam.PrivateDataLen > dataSIDRREP {
		if id.state == reqReceived {
			k.sendSIDR(id, abi.RDMA_CM_EVENT_UNREACHABLE, sidrReject, k.datagramParam(id, nil))
			k.to(id, ended)
		}
		return syscall.EINVAL
	}
	param := k.datagramParam(id.peer, nil)
	if c.ConnParam.Valid != 0 {
		id.uid, id.own = c.UID, c.ConnParam
		param = k.datagramParam(id.peer, &c.ConnParam)
	}
	k.to(id, established)
	k.sendSIDR(id, abi.RDMA_CM_EVENT_ESTABLISHED, 0, param)
	return nil
}

// rejectDatagram implements REJECT on a datagram ID.
func (k *Kernel) rejectDatagram(id *id, data []byte) error {
	if id.state != reqReceived || len(data) > dataSIDRREP {
		return syscall.EINVAL
	}
	p := abi.UcmConnParam{PrivateDataLen: uint8(len(data))}
	copy(p.PrivateData[:], data)
	k.sendSIDR(id, abi.RDMA_CM_EVENT_UNREACHABLE, sidrReject, k.datagramParam(id, &p))
	k.to(id, ended)
	return nil
}

// sendSIDR sends the answer to a SIDR_REQ.
func (k *Kernel) sendSIDR(id *id, typ uint32, status int, param []byte) {
	peer := id.peer
	k.transmit(id.message(REP), attempts, peer.current(), func() bool {
		if peer.gone || peer.state != reqSent {
			return true
		}
		if typ != abi.RDMA_CM_EVENT_ESTABLISHED {
			k.end(peer, typ, status, param, reqSent)
			return true
		}
		k.to(peer, established)
		k.tell(peer, typ, status, param)
		return true
	}, func() { k.end(peer, abi.RDMA_CM_EVENT_UNREACHABLE, -int(syscall.ETIMEDOUT), nil, reqSent) })
}

// datagramParam returns the event parameters for the answer to a datagram ID's request. They
// name the QP of the ACCEPT command c, or no QP if c is nil.
func (k *Kernel) datagramParam(id *id, c *abi.UcmConnParam) []byte {
	p := abi.UcmUDParam{PrivateDataLen: dataSIDRREP}
	if c != nil {
		copy(p.PrivateData[:], c.PrivateData[:c.PrivateDataLen])
		p.QPNum = c.QPNum
	}
	if p.QPNum != 0 {
		p.QKey, p.AHAttr = datagramQKey, id.ahAttr()
	}
	return abi.Bytes(&p)
}
