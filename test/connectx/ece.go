// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// eceOptions are the enhanced connection establishment options of the device. The
// vendor does not document what its bits mean. Here they mean nothing: the device does
// the part of the firmware in the negotiation, and that is all.
const eceOptions = prm.ECETrigger | 0x3

// agreeECE returns the options that the device grants of those that a driver asks for.
func agreeECE(asked uint32) uint32 {
	if asked&prm.ECETrigger != 0 && asked&^uint32(prm.ECETrigger) == 0 {
		return eceOptions
	}
	return asked & eceOptions
}

// modifyECE takes the options that come with a transition, which says what the peer
// can do. A driver that gives none leaves the QP's as they are.
func (q *qp) modifyECE(in, out []byte) {
	if asked := uint32(prm.QPIn.ECE.Get(in)); asked != 0 {
		q.ece &= agreeECE(asked)
	}
	prm.QPOut.ECE.Set(out, uint64(q.ece))
}
