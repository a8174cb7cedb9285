// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// failedStreams are the failed streams of a DCI. The device executes none of their later requests.
type failedStreams map[uint16]bool

// failStream records that a stream of a DCI has failed. It returns false if the QP has no streams, or if too many have failed. The QP then
// fails.
func (q *qp) failStream(stream uint16) bool {
	if q.service != prm.ServiceDCI || prm.QPC.LogDCIStreams.Get(q.context[:]) == 0 || q.d.defects.CommonStreams {
		return false
	}
	if q.failed == nil {
		q.failed = failedStreams{}
	}
	q.failed[stream] = true
	return len(q.failed) <= 1<<prm.QPC.LogDCIErrored.Get(q.context[:])
}
