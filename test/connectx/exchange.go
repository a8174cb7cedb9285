// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"time"

	"purerdma/test/connectx/prm"
)

// message is a request as it crosses the fabric.
type message struct {
	from    *qp
	to      uint32 // QP
	service uint64
	sgid    [16]byte
	dgid    [16]byte
	psn     uint32
	psns    uint32
	*request
	data [][]byte // payload
}

// answer is what comes back.
type answer struct {
	kind     answerKind
	syndrome prm.Syndrome  // of the request, if it was refused
	after    time.Duration // when to try again
	data     [][]byte      // what a read brings
	old      [8]byte       // what an atomic brings
}

type answerKind uint8

const (
	silence  answerKind = iota // nobody was there, or it was lost
	ack                        // done
	notReady                   // there is no receive
	refused                    // and the peer's QP has failed
)

// exchange sends a request to the peer and takes the answer.
func (q *qp) exchange(f *flight, r *request) {
	m := &q.d.message
	*m = message{from: q, service: q.service, request: r, data: r.local, to: uint32(prm.QPC.RemoteQPN.Get(q.context[:]))}
	path := prm.QPC.Primary.Of(q.context[:])
	m.sgid = q.d.gids[prm.ADS.SourceIndex.Get(path)].gid()
	m.dgid = [16]byte(prm.ADS.RGID.Of(path))
	if q.service == prm.ServiceDCI {
		m.sgid = q.d.gids[prm.AV.SourceIndex.Get(r.av)].gid()
		m.dgid = [16]byte(prm.AV.RGID.Of(r.av))
		m.to = uint32(prm.AV.DestQPN.Get(r.av))
	}
	if !f.numbered {
		f.numbered, f.psn, f.psns = true, q.sendPSN, q.packets(r.length)
		q.sendPSN = (q.sendPSN + f.psns) & psnMask
	}
	m.psn, m.psns = f.psn, f.psns
	fate := q.d.fabric.fate(q.d, m)
	a := answer{}
	if !fate.requestLost {
		a = q.d.fabric.deliver(m)
	}
	if q.service == prm.ServiceUC {
		f.done = true
		return
	}
	if fate.answerLost {
		a = answer{}
	}
	if fate.delay > 0 {
		f.sent = fate.answerLost
		q.blocked = !f.sent
		q.wait(fate.delay, q.again)
		return
	}
	f.sent = fate.answerLost && !fate.requestLost
	q.answered(f, r, a)
}

// psnMask is of packet sequence numbers.
const psnMask = 1<<24 - 1

// packets is how many packets a message of n bytes has.
func (q *qp) packets(n uint64) uint32 {
	mtu := uint64(128) << max(1, min(5, prm.QPC.MTU.Get(q.context[:])))
	return uint32(max(1, (n+mtu-1)/mtu))
}

// answered takes the answer to a request.
func (q *qp) answered(f *flight, r *request, a answer) {
	switch a.kind {
	case silence:
		if t := q.ackTimeout(); t > 0 && !q.timer.running() {
			q.wait(t, q.timeout)
		}
		q.blocked = !f.sent
	case notReady:
		if q.rnrRetry() != rnrForever {
			if q.rnrLeft == 0 {
				f.fail(prm.SyndromeRNRRetryExceeded)
				return
			}
			q.rnrLeft--
		}
		q.blocked = true
		q.wait(a.after, q.again)
	case refused:
		f.fail(a.syndrome)
	case ack:
		q.retriesLeft, q.rnrLeft = q.retryCount(), q.rnrRetry()
		f.done = true
		if f.response {
			q.bring(f, r, a)
		}
	}
}

// bring puts what a read or an atomic brought where the request says, or, if it is
// short and the QP was made so, into its completion.
func (q *qp) bring(f *flight, r *request, a answer) {
	if operations[r.opcode].atomic {
		q.d.remote = append(q.d.remote[:0], a.old[:])
		a.data = q.d.remote
	}
	n := int(r.length)
	most := 0
	switch prm.QPC.ScatterReq.Get(q.context[:]) {
	case prm.ScatterReq32:
		most = 32
	case prm.ScatterReq64:
		most = 64
	}
	if f.signaled && n > 0 && n <= most && q.sendCQ.holds(n) {
		f.short = n
		to := [][]byte{f.scattered[:n]}
		transfer(to, a.data)
		return
	}
	transfer(r.local, a.data)
}

// timeout is called when an answer did not come in time.
func (q *qp) timeout() {
	if !q.sends() {
		return
	}
	if q.retriesLeft == 0 {
		for i := range q.flights {
			if !q.flights[i].done {
				q.flights[i].fail(prm.SyndromeRetryExceeded)
				break
			}
		}
		q.blocked = false
		q.retire()
		return
	}
	q.retriesLeft--
	q.again()
}

// again sends once more what has not been answered, in order, and then what is behind
// it.
func (q *qp) again() {
	if !q.sends() {
		return
	}
	q.blocked = false
	for i := 0; i < len(q.flights) && !q.blocked; i++ {
		q.transmit(i)
	}
	q.retire()
	q.run()
}
