// SPDX-License-Identifier: Apache-2.0

package cmtest

import (
	"purerdma/abi"
	"purerdma/uverbs"
)

// On iWARP the kernel moves the QPs. The connection is established for both sides when the accepting
// side answers. When it ends, the kernel first moves the QPs to the error state and then reports the end.

// iwarpQPs moves QPs. The Kernel given to New implements it if its devices are iWARP devices.
type iwarpQPs interface {
	ConnectQP(num, peer uint32, incoming, outgoing uint8)
	FailQP(num uint32)
}

// iwarp returns the QPs of an ID on an iWARP device. It returns nil for any other ID.
func (k *Kernel) iwarp(id *id) iwarpQPs {
	if id.dev == nil || id.dev.info.NodeType != uverbs.NodeRNIC {
		return nil
	}
	qps, _ := k.verbs.(iwarpQPs)
	return qps
}

// establish connects both sides. It is the arrival of the answer to a request.
func (k *Kernel) establish(qps iwarpQPs, passive, active *id) {
	active.theirs.PrivateDataLen = passive.own.PrivateDataLen
	for _, id := range []*id{passive, active} {
		qps.ConnectQP(id.own.QPNum, id.peer.own.QPNum, id.responder, id.initiator)
		k.to(id, established)
	}
	k.tell(active, abi.RDMA_CM_EVENT_ESTABLISHED, 0, abi.Bytes(&active.theirs))
	k.tell(passive, abi.RDMA_CM_EVENT_ESTABLISHED, 0)
}

// closeStream ends an established connection of iWARP for both sides.
func (k *Kernel) closeStream(qps iwarpQPs, id *id) {
	peer := id.peer
	qps.FailQP(id.own.QPNum)
	k.end(id, abi.RDMA_CM_EVENT_DISCONNECTED, 0, nil, established)
	k.transmit(id.message(DREQ), attempts, peer.current(), func() bool {
		if peer.state == established {
			qps.FailQP(peer.own.QPNum)
		}
		k.end(peer, abi.RDMA_CM_EVENT_DISCONNECTED, 0, nil, established)
		return true
	}, func() {})
}
