// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"time"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// message is a request on the fabric.
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

// answer is the answer to a message.
type answer struct {
	kind     answerKind
	syndrome prm.Syndrome  // syndrome of a rejected request
	after    time.Duration // delay before the next attempt
	data     [][]byte      // data of a read
	old      [8]byte       // result of an atomic
}

type answerKind uint8

const (
	silence  answerKind = iota // no receiver, or it was lost
	ack                        // done
	notReady                   // no posted receive
	refused                    // rejected, and the peer's QP has failed
)

// exchange sends a request to the peer and processes the answer.
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
	if q.d.portUp() {
		q.d.fw.port.frames.rdmaSent[unicastFrames].addPackets(m.size())
	}
	a := answer{}
	if fate.arrives() {
		a = q.d.fabric.deliver(m)
	}
	if q.service == prm.ServiceUC && fate.delay == 0 {
		f.done = true
		return
	}
	if fate.answerLost {
		a = answer{}
	}
	q.d.fw.port.frames.rdmaReceived[unicastFrames].addPackets(m.answerSize(&a))
	if fate.delay > 0 {
		f.sent = fate.answerLost
		q.blocked = !f.sent
		q.wait(fate.delay, q.again)
		return
	}
	f.sent = fate.answerLost && !fate.requestLost
	q.answered(f, r, a)
}

// psnMask is the mask of packet sequence numbers.
const psnMask = 1<<24 - 1

// packets returns the number of packets of a message of n bytes.
func (q *qp) packets(n uint64) uint32 {
	mtu := uint64(128) << max(1, min(5, prm.QPC.MTU.Get(q.context[:])))
	return uint32(max(1, (n+mtu-1)/mtu))
}

// answered processes the answer to a request.
func (q *qp) answered(f *flight, r *request, a answer) {
	switch a.kind {
	case silence:
		if t := q.ackTimeout(); t > 0 && !q.timer.Running() {
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

// bring stores the data of a read or an atomic in the request's memory. If the data are short
// and the QP is configured for it, they go into the completion instead.
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
		pci.Transfer(to, a.data)
		return
	}
	pci.Transfer(r.local, a.data)
}

// timeout is called when an answer has not arrived in time.
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

// again repeats the unanswered requests in order, and then the requests behind them.
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
