// SPDX-License-Identifier: Apache-2.0

package cmtest

import (
	"syscall"

	"purerdma/abi"
	"purerdma/verbs"
)

// ahAttr returns the address vector of an ID's peer.
func (id *id) ahAttr() abi.UverbsAHAttr {
	return abi.UverbsAHAttr{IsGlobal: 1, PortNum: 1, GRH: abi.UverbsGlobalRoute{DGID: id.remote.Addr().As16(), HopLimit: 64}}
}

// initQPAttr implements INIT_QP_ATTR. Before CONNECT it returns attributes only for INIT,
// without access rights for the peer. For datagrams it always returns attributes only for
// INIT. On iWARP it returns almost nothing, because the kernel moves the QP.
func (k *Kernel) initQPAttr(id *id, c *abi.UcmInitQPAttr) error {
	const (
		mtu1024 = 3
		// Linux waits 0.5 to 2 seconds for an acknowledgement. Its RNR timer makes the peer
		// wait 655 milliseconds for a receive.
		ackTimeout = 14 // 67 milliseconds
		rnrTimer   = 12 // 0.64 milliseconds
	)
	state := verbs.QPState(c.QPState)
	r := abi.UverbsQPAttr{QPState: c.QPState, PortNum: 1}
	mask := verbs.QPAttrState
	switch {
	case id.dev == nil || state > verbs.QPErr:
		return syscall.EINVAL
	case k.iwarp(id) != nil:
		if state == verbs.QPInit || state == verbs.QPRTR {
			mask |= verbs.QPAttrAccess
		}
	case state == verbs.QPInit && id.datagram():
		mask |= verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrQKey
		r.QKey = datagramQKey
	case state == verbs.QPInit && id.in(bound, addrResolved, routeResolved):
		mask |= verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess
	case state == verbs.QPInit && id.in(reqSent, reqReceived, repSent, repReceived, established):
		mask |= verbs.QPAttrPKeyIndex | verbs.QPAttrPort | verbs.QPAttrAccess
		r.QPAccessFlags = abi.IB_UVERBS_ACCESS_REMOTE_WRITE
		if id.responder > 0 {
			r.QPAccessFlags |= abi.IB_UVERBS_ACCESS_REMOTE_READ | abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC
		}
	case id.datagram() || !id.in(reqReceived, repSent, repReceived, established):
		return syscall.EINVAL
	case state == verbs.QPRTR:
		mask |= verbs.QPAttrAV | verbs.QPAttrPathMTU | verbs.QPAttrDestQPNum | verbs.QPAttrRQPSN | verbs.QPAttrMaxDestRdAtomic | verbs.QPAttrMinRNRTimer
		r.AHAttr = id.ahAttr()
		r.PathMTU, r.MinRNRTimer = mtu1024, rnrTimer
		r.DestQPNum, r.RQPSN, r.MaxDestRdAtomic = id.theirs.QPNum, id.peer.psn, id.responder
	case state == verbs.QPRTS:
		mask |= verbs.QPAttrTimeout | verbs.QPAttrRetryCount | verbs.QPAttrRNRRetryCount | verbs.QPAttrSQPSN | verbs.QPAttrMaxRdAtomic
		r.Timeout, r.SQPSN, r.MaxRdAtomic, r.RNRRetry = ackTimeout, id.psn, id.initiator, min(id.theirs.RNRRetryCount, 7)
		if r.RetryCnt = min(id.theirs.RetryCount, 7); id.active {
			r.RetryCnt = min(id.own.RetryCount, 7) // both sides use the retry count of the connecting side
		}
	default:
		return syscall.EINVAL
	}
	r.QPAttrMask = uint32(mask)
	answer(c.Response, &r)
	return nil
}
