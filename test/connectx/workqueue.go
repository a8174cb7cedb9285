// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// workQueue contains the common parts of send and receive queues of Ethernet.
type workQueue struct {
	kind    string
	n       uint32
	context [prm.QueueContextSize]byte
	pd      *pd
	uar     *uar // nil without a doorbell register
	cq      *cq
	logSize uint
	stride  uint64
	buffer  buffer
	record  uint64 // doorbell record of receives and sends
	pi      uint32 // index of the next request, in strides
	state   uint64 // prm.QueueReset and its siblings
	index   uint32 // user index of the driver
}

// maxLogWQ is the log2 of the maximum number of strides. maxLogStride is the log2 of the
// maximum size of a stride in bytes.
const (
	maxLogWQ     = 15
	maxLogStride = 10
)

// readWQ reads the common part of both kinds of queues from a context.
func (d *Device) readWQ(kind string, context []byte, cqn prm.Field) (q workQueue, err error) {
	q = workQueue{kind: kind, context: [prm.QueueContextSize]byte(context), state: prm.QueueReset}
	w := q.context[prm.QueueContextSize-prm.WQSize:]
	d.checkReserved(kind, &prm.WQ, w)
	q.logSize, q.stride, q.record = uint(prm.WQ.LogSize.Get(w)), 1<<prm.WQ.LogStride.Get(w), prm.WQ.DBRAddr.Get(w)
	switch {
	case prm.WQ.Type.Get(w) != prm.WQCyclic:
		return q, refuse(prm.StatusBadParam, "%s: no work queue of type %d", kind, prm.WQ.Type.Get(w))
	case q.logSize > maxLogWQ || q.stride > 1<<maxLogStride || q.stride < prm.Octoword:
		return q, refuse(prm.StatusBadParam, "%s: a work queue of 2^%d requests of %d bytes", kind, q.logSize, q.stride)
	}
	if err := checkRecord(q.record); err != nil {
		return q, err
	}
	if q.pd, err = d.pds.find(uint32(prm.WQ.PD.Get(w))); err != nil {
		return q, err
	}
	if q.cq, err = d.cqs.find(uint32(cqn.Get(context))); err != nil {
		return q, err
	}
	q.buffer, err = d.newBuffer(prm.WQ.PAS.Of(context[prm.QueueContextSize-prm.WQSize:]), prm.WQ.LogPageSize.Get(w), prm.WQ.PageOffset.Get(w), q.stride<<q.logSize)
	return q, err
}

// hold adds by to the use counts of the objects that the queue refers to.
func (q *workQueue) hold(d *Device, by users) {
	q.buffer.hold(d, by)
	q.pd.users += by
	q.cq.users += by
}

// name returns the queue's name in violations.
func (q *workQueue) name() string { return fmt.Sprintf("%s %#x", q.kind, q.n) }

// posted returns the producer index in a word of the doorbell record, 0 for receives or 1 for
// sends.
func (q *workQueue) posted(d *Device, word int) (uint32, bool) {
	r := d.mem.Bytes(q.record, prm.DoorbellRecordLength)
	if r == nil || !pci.Aligned(r) {
		return 0, false
	}
	return pci.LoadWord(r[4*word:]) & 0xffff, true
}

// outstanding returns the number of posted strides that have not been executed. It returns 0 if
// the driver has posted more than the size of the queue, which is a violation.
func (q *workQueue) outstanding(d *Device, word int) uint32 {
	pi, ok := q.posted(d, word)
	if !ok {
		d.violation(q.name(), "its doorbell record is not there")
		return 0
	}
	n := (pi - q.pi) & 0xffff
	if n > 1<<q.logSize {
		d.violation(q.name(), "%d requests are posted, it has room for %d", n, 1<<q.logSize)
		return 0
	}
	return n
}

// fetch copies n bytes of the queue to b, starting with the next request. It fails if they are
// not mapped.
func (q *workQueue) fetch(d *Device, b []byte) bool {
	size := q.stride << q.logSize
	off := uint64(q.pi) * q.stride % size
	for len(b) > 0 {
		// A request of a send queue may wrap around, and may cross pages.
		n := min(uint64(len(b)), size-off, q.stride)
		p := q.buffer.at(d.mem, off, int(n))
		if p == nil {
			return false
		}
		copy(b, p)
		b, off = b[n:], (off+n)%size
	}
	return true
}

// gatherSeg appends the memory of a data segment to dst.
func (q *workQueue) gatherSeg(d *Device, dst [][]byte, seg []byte, right right) ([][]byte, error) {
	return d.memory(dst, access{pd: q.pd.n, qpn: q.n, right: right}, uint32(prm.DataSeg.LKey.Get(seg)), prm.DataSeg.Address.Get(seg), prm.DataSeg.ByteCount.Get(seg))
}

// changeState executes the state's part of MODIFY_SQ or MODIFY_RQ.
func (q *workQueue) changeState(in []byte, state prm.Field) (to uint64, err error) {
	from, to := prm.ModifyContextIn.State.Get(in), state.Get(prm.ModifyContextIn.Context.Of(in))
	if from != q.state {
		return to, refuse(prm.StatusBadResState, "%s is in state %d, not %d", q.name(), q.state, from)
	}
	switch {
	case from == to, from == prm.QueueReset && to == prm.QueueReady, to == prm.QueueError, to == prm.QueueReset:
	default:
		return to, refuse(prm.StatusBadParam, "%s cannot go from state %d to %d", q.name(), from, to)
	}
	if to == prm.QueueReset {
		q.pi = 0
	}
	q.state = to
	return to, nil
}
