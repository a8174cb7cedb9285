// SPDX-License-Identifier: Apache-2.0

package cmtest

import (
	"cmp"
	"net/netip"
	"syscall"
	"time"

	"purerdma/abi"
)

// MessageType is the type of a message between connection managers (IBTA specification,
// volume 1, 12.6 and 12.11). A datagram's REQ and REP are a SIDR_REQ and a SIDR_REP.
type MessageType string

// The types of messages.
const (
	REQ  MessageType = "REQ"  // a connect request
	REP  MessageType = "REP"  // its acceptance
	RTU  MessageType = "RTU"  // the confirmation of the acceptance
	REJ  MessageType = "REJ"  // a rejection
	DREQ MessageType = "DREQ" // a disconnect
	DREP MessageType = "DREP" // its confirmation
)

// Message is a message on the network.
type Message struct {
	Type     MessageType
	From, To netip.AddrPort
}

// Fate is the outcome of a message.
type Fate int

// Fates.
const (
	Arrives Fate = iota
	Lost
)

// OnMessage calls f with every message, and also with repeated ones. f returns whether the
// message arrives, and how long it takes. With a nil f all messages arrive immediately. f is
// called with the Kernel's lock held, and must not call the Kernel or package cm.
func (k *Kernel) OnMessage(f func(Message) (Fate, time.Duration)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.onMessage = f
}

// attempts is the number of times that an unanswered message is sent.
const attempts = 16

func (id *id) message(t MessageType) Message { return Message{t, id.local, id.remote} }

// current returns a function that reports whether the ID is still in its present state.
func (id *id) current() func() bool {
	turn := id.turn
	return func() bool { return id.turn == turn }
}

// send sends a message repeatedly while the ID stays in its state.
func (k *Kernel) send(id *id, m Message, arrive func() bool, fail func()) {
	current := id.current()
	k.transmit(m, attempts, func() bool { return current() && !id.gone }, arrive, fail)
}

// transmit sends a message until arrive returns true. After the last of its tries, it calls
// fail. It stops when current returns false.
func (k *Kernel) transmit(m Message, tries int, current, arrive func() bool, fail func()) {
	fate, delay := Arrives, time.Duration(0)
	if k.onMessage != nil {
		fate, delay = k.onMessage(m)
	}
	again := func() {
		if !current() {
			return
		}
		if tries--; tries == 0 {
			fail()
			return
		}
		k.transmit(m, tries, current, arrive, fail)
	}
	arrives := func() {
		if k.cut(m) || !arrive() {
			k.after(k.retry(), again)
		}
	}
	switch {
	case fate == Lost:
		k.after(k.retry(), again)
	case delay > 0:
		k.after(delay, arrives)
	default:
		arrives()
	}
}

// cut reports whether a message cannot arrive because a device is unplugged.
func (k *Kernel) cut(m Message) bool {
	from, to := k.with(m.From.Addr()), k.with(m.To.Addr())
	return from != to && (from != nil && from.unplugged || to != nil && to.unplugged)
}

func (k *Kernel) retry() time.Duration { return cmp.Or(k.Retry, 10*time.Millisecond) }

// after runs f after d with the lock held.
func (k *Kernel) after(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		f()
	})
}

// outwait ends an ID whose peer has become unreachable after the peer received a message and
// before it answered. The end comes after the time of all attempts.
func (k *Kernel) outwait(id *id) {
	current := id.current()
	k.after(attempts*k.retry(), func() {
		if !current() {
			return
		}
		k.end(id, abi.RDMA_CM_EVENT_UNREACHABLE, -int(syscall.ETIMEDOUT), nil, reqSent, repSent)
		k.end(id, abi.RDMA_CM_EVENT_DISCONNECTED, -int(syscall.ETIMEDOUT), nil, dreqSent)
	})
}
