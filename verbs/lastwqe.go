// SPDX-License-Identifier: Apache-2.0

package verbs

import "time"

// lastWQEWait bounds how long Close waits for the event QP_LAST_WQE_REACHED. The device sends it
// when it has flushed one receive, unless it is broken.
const lastWQEWait = 100 * time.Millisecond

// token is a channel with room for one token. The methods never block. On a nil token they do
// nothing.
type token chan struct{}

func (c token) put() {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (c token) clear() {
	select {
	case <-c:
	default:
	}
}

// flushSRQ moves a QP with an SRQ to the error state before it is closed. A message in progress has
// taken a receive of the SRQ, which then completes. If a QP is destroyed in another state, such a
// receive may be lost. The consumer also has to wait for the event that follows the completion
// (InfiniBand architecture specification, volume 1, chapter 10.3.1). It is a best effort, because
// the QP is to be closed in any case. The caller holds the lock.
func (q *QP) flushSRQ() {
	state := q.p.State()
	if q.srq == nil || state == QPReset || state == QPInit {
		return // no message can be in progress
	}
	if state != QPErr && q.modify(&QPAttr{State: QPErr}, QPAttrState) != nil || q.lastWQE == nil {
		return
	}
	timer := time.NewTimer(lastWQEWait)
	defer timer.Stop()
	select {
	case <-q.lastWQE:
	case <-timer.C:
	case <-q.pd.dev.removed:
	}
}
