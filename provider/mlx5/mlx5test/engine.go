// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"time"

	"purerdma/abi"
	"purerdma/uverbs"
)

// engine is how far the device is with a QP, and what it works with, kept so that
// carrying out a request allocates nothing.
type engine struct {
	sent     uint16    // WQEBB carried out
	received uint16    // receives filled
	since    time.Time // since when the peer has not been ready, zero if it is

	wqe    [1024]byte
	local  [maxSGE][]byte // what a request names here
	remote [maxSGE][]byte // what the receive of the peer names
	cqe    [128]byte

	grh        [40]byte // of a datagram, and what comes behind it
	withHeader [maxSGE + 1][]byte
}

// maxSGE is how many elements a request or a receive can have.
const maxSGE = 64

// How long a device that is Live goes on trying.
const (
	patience    = time.Second          // for a peer that is not connected yet
	rnrPatience = 5 * time.Millisecond // for each of the retries that a QP has for a peer without receives
)

// Progress carries out what has been posted, until there is nothing that can be, and
// returns how many requests that were. A request whose receiver is not ready stays,
// unless its QP has no retries.
func (k *Kernel) Progress() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	total := 0
	for n := 1; n > 0 && k.Hardware == nil; total += n {
		n = k.pass()
	}
	return total
}

// live sees to it that a goroutine carries out what is posted, if that is wanted.
func (k *Kernel) live() {
	if !k.Live || k.running {
		return
	}
	k.running = true
	go func() {
		const spins = 200
		for idle := 0; ; idle++ {
			k.mu.Lock()
			if len(k.qps) == 0 {
				k.running = false
				k.mu.Unlock()
				return
			}
			n := k.pass()
			k.mu.Unlock()
			if n > 0 {
				idle = 0
			}
			if idle > spins {
				time.Sleep(50 * time.Microsecond)
			}
		}
	}()
}

// pass gives each QP one turn, and returns how many requests were carried out.
func (k *Kernel) pass() int {
	n := 0
	for _, q := range k.qps {
		n += q.turn()
	}
	return n
}

// turn carries out what is posted to the QP.
func (q *QP) turn() int {
	if q.state == stateErr {
		return q.flush()
	}
	if q.state != stateRTS || len(q.SQ) == 0 {
		return 0
	}
	n := 0
	for q.state == stateRTS && q.sent != q.SendCounter() {
		units, ok := q.send()
		if !ok {
			break
		}
		q.since = time.Time{}
		q.sent += units
		n++
	}
	return n
}

// wait says that the peer is not ready, and whether it is to be tried again later.
func (q *QP) wait(long time.Duration, forever bool) bool {
	if forever {
		return true
	}
	if !q.c.k.Live {
		return long >= patience
	}
	if q.since.IsZero() {
		q.since = time.Now()
	}
	return time.Since(q.since) < long
}

// uidx is how completions name the QP to the program.
func (q *QP) uidx() uint32 {
	if q.c.resp.CQEVersion == 0 {
		return 0
	}
	return q.Create.UIdx
}

// completeSend gives the QP's send queue a completion.
func (q *QP) completeSend(e *CQE) {
	e.UserIndex, e.QPN = q.uidx(), q.Num
	q.SendCQ.complete(e, q.cqe[:])
}

// complete puts a completion into the ring and gives the event that was asked for.
func (q *CQ) complete(e *CQE, scratch []byte) {
	b := scratch[:q.CQESize]
	e.put(b)
	if q.push(b) {
		q.notify(e.Solicited || e.Opcode == CQEReqErr || e.Opcode == CQERespErr)
	}
}

// vendorFlush is the syndrome that devices give for what is flushed.
const vendorFlush = 0xf9

// toError moves the QP to the error state, in which everything is flushed.
func (q *QP) toError() {
	if q.state == stateErr {
		return
	}
	q.state = stateErr
	q.flush()
	if q.SRQ != nil {
		q.c.Event(uverbs.EventQPLastWQEReached, q.UserHandle)
	}
}

// reset forgets what is posted.
func (q *QP) reset() { q.sent, q.received, q.since = 0, 0, time.Time{} }

// flush completes everything posted, without doing it.
func (q *QP) flush() int {
	n := 0
	if len(q.SQ) > 0 {
		for ; q.sent != q.SendCounter(); n++ {
			opcode, units := q.fetch()
			q.completeSend(&CQE{Opcode: CQEReqErr, Syndrome: SyndromeFlush, VendorSyndrome: vendorFlush, SendOpcode: opcode, WQECounter: q.sent})
			q.sent += units
		}
	}
	if len(q.RQ) > 0 {
		for ; q.received != q.RecvCounter(); n++ {
			e := CQE{Opcode: CQERespErr, Syndrome: SyndromeFlush, VendorSyndrome: vendorFlush, WQECounter: q.received, UserIndex: q.uidx(), QPN: q.Num}
			q.received++
			q.RecvCQ.complete(&e, q.cqe[:])
		}
	}
	return n
}

// FailQP moves a QP to the error state by itself, as a device does after a fault,
// and tells the program.
func (k *Kernel) FailQP(num uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, q := range k.qps {
		if q.Num == num {
			q.toError()
			q.c.Event(uverbs.EventQPFatal, q.UserHandle)
		}
	}
}

// Event gives an asynchronous event to the contexts that it concerns: one of a port
// or the device to all, one of an object to that which made it. Element is the port
// or the user handle of the object.
func (k *Kernel) Event(typ uverbs.EventType, element uint64) { k.EventOf("", typ, element) }

// EventOf is Event for the contexts of one device.
func (k *Kernel) EventOf(device string, typ uverbs.EventType, element uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.contexts {
		if (device == "" || device == c.Info.Name) && c.concerns(typ, element) {
			c.Event(typ, element)
		}
	}
}

// concerns says whether an event is the context's.
func (c *context) concerns(typ uverbs.EventType, element uint64) bool {
	switch typ.Element() {
	case uverbs.ElementQP:
		for _, q := range c.qps {
			if q.UserHandle == element {
				return true
			}
		}
		return false
	case uverbs.ElementCQ:
		for _, q := range c.cqs {
			if q.UserHandle == element {
				return true
			}
		}
		return false
	case uverbs.ElementSRQ:
		for _, q := range c.srqs {
			if q.UserHandle == element {
				return true
			}
		}
		return false
	}
	return true
}

// qp returns the QP of a number that can take messages of a type, nil if there is
// none.
func (k *Kernel) qp(num uint32, takes func(*QP) bool) *QP {
	for _, q := range k.qps {
		if q.Num == num && takes(q) {
			return q
		}
	}
	return nil
}

// connectedTo says whether the peer's side of a connection is of the right type.
func (q *QP) connectedTo(peer *QP) bool {
	if q.Type == abi.IB_UVERBS_QPT_XRC_INI {
		return peer.Type == abi.IB_UVERBS_QPT_XRC_TGT
	}
	return peer.Type == q.Type
}
