// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// eceOptions contains the enhanced connection establishment options of the device. The vendor
// does not document their bits. Here they have no effect. The device only implements the
// firmware's part of the negotiation.
const eceOptions = prm.ECETrigger | 0x3

// agreeECE returns the options that the device accepts of the options that a driver requests.
func agreeECE(asked uint32) uint32 {
	if asked&prm.ECETrigger != 0 && asked&^uint32(prm.ECETrigger) == 0 {
		return eceOptions
	}
	return asked & eceOptions
}

// modifyECE applies the options of a transition, which contain the peer's options. Without
// options the QP's remain unchanged.
func (q *qp) modifyECE(in, out []byte) {
	if asked := uint32(prm.QPIn.ECE.Get(in)); asked != 0 {
		q.ece &= agreeECE(asked)
	}
	prm.QPOut.ECE.Set(out, uint64(q.ece))
}
