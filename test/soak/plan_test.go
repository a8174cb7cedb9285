// SPDX-License-Identifier: Apache-2.0

package soak

import "math/rand/v2"

// ending is the way in which a connection ends.
type ending int

const (
	orderly    ending = iota
	disconnect        // the connection is closed with pending requests.
	toError           // the QP is moved to the error state.
	closeQP           // the QP is closed without waiting for its completions.
	closeMR           // the region of the peer's operations is closed.
	endings
)

func (e ending) String() string {
	return [...]string{"orderly", "disconnect", "QP to ERR", "QP closed", "region closed"}[e]
}

// mode is the way in which a side waits for completions, with the source of its receives.
type mode int

const (
	ownCQ      mode = iota // one CQ, one waiter.
	twoCQs                 // one each for sends and receives.
	polled                 // a CQ without events.
	oneChannel             // CQs of a channel, whose waiters read for each other.
	nextLoop               // one goroutine serves all CQs of a channel with Next, Arm, Poll.
	sharedCQ               // a CQ of many QPs, with several waiters.
	srqOwnCQ               // an SRQ, and a CQ of the QP's own
	srqShared              // an SRQ and a shared CQ
	modes
)

func (m mode) String() string {
	return [...]string{"own CQ", "two CQs", "polled CQ", "CQ on a shared channel", "CQ served by Next", "shared CQ", "SRQ", "SRQ and shared CQ"}[m]
}

func (m mode) srq() bool    { return m == srqOwnCQ || m == srqShared }
func (m mode) shared() bool { return m == sharedCQ || m == srqShared }

// plan contains the decisions that both sides of a connection know beforehand.
type plan struct {
	modes  [2]mode // of the active and of the passive side.
	quota  [2]int  // messages
	ending ending
	by     int // side that ends the connection.
	after  int // number of its messages before the end
}

func newPlan(r *rand.Rand) plan {
	p := plan{
		modes: [2]mode{mode(r.IntN(int(modes))), mode(r.IntN(int(modes)))},
		quota: [2]int{20 + r.IntN(150), 20 + r.IntN(150)},
	}
	if r.IntN(3) == 0 {
		p.ending = ending(r.IntN(int(endings)))
	}
	p.by = r.IntN(2)
	p.after = 1 + r.IntN(p.quota[p.by])
	return p
}
