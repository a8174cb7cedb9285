// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"purerdma/pool"
	"purerdma/verbs"
)

// ReceiveConfig configures receives.
type ReceiveConfig struct {
	// Size is the number of bytes of the longest message. A longer one breaks the connection. 0 means
	// DefaultMessageSize.
	Size int
	// Depth is the number of messages that can arrive before the program frees one. 0 means the
	// capacity of the receive queue, or DefaultDepth for a shared one. A message that finds no receive
	// posted is delayed and sent again, up to cm.ConnParam.RNRRetryCount times. On iWARP it ends the
	// connection.
	Depth int
	// MaxHeld bounds the messages of one connection that the program has not freed, whether it has
	// taken them or not. It is for shared receives, where a connection could otherwise use up
	// the receives of the others. A connection that exceeds it fails. 0 means half of Depth. A receive queue
	// of its own is bounded by Depth.
	MaxHeld int
}

// Defaults of ReceiveConfig.
const (
	DefaultMessageSize = 4096
	DefaultDepth       = 512
)

// receives posts the buffers of a pool to a receive queue, of a QP or shared, and finds the buffer of
// a completion.
//
// It holds at least depth buffers while the program takes messages slowly, so that a pool which
// others have used up does not stop it. It takes further ones from the pool while the program
// holds messages.
//
// Locks are taken in this order: the CQ's, Receiver.mu, receives.mu, hub.mu.
type receives struct {
	pool        *pool.Pool
	queue       recvQueue
	size, depth int
	base        uint64         // ID of the receive with number 0
	place       link[receives] // in hub.refills, or none
	refilling   atomic.Bool    // rq is in hub.refills

	mu sync.Mutex // guards the following fields
	// posted has the messages of posted receives by number, and free the numbers without one.
	posted []*Message
	free   []uint32
	// order is nil if the receive queue does not report the receives that were taken. extra is the
	// number of receives beyond depth, in place of lost ones.
	order *takenOrder
	extra int
	// spare are messages with a buffer that is not posted.
	spare  list[Message]
	spares int
	unused list[Message] // messages without a buffer
	// stopped is set when nothing more is posted.
	stopped bool
	// receivers has the receivers by QP number.
	receivers map[uint32]*Receiver
	wrs       []verbs.RecvWR
	sges      []verbs.SGE

	dropMu  sync.Mutex
	dropped []uint32 // numbers of receives that have no completion
}

// recvQueue is a *verbs.QP or *verbs.SRQ.
type recvQueue interface {
	PostRecv([]verbs.RecvWR) (int, error)
}

// receiveQueues finds receive queues by request IDs. A shared one completes on several CQs.
var receiveQueues idTable[receives]

func newReceives(p *pool.Pool, cfg ReceiveConfig, depth int) (*receives, error) {
	rq := &receives{pool: p, size: cmp.Or(cfg.Size, DefaultMessageSize), depth: depth, receivers: map[uint32]*Receiver{}}
	rq.place.of = rq
	if rq.size < 1 || rq.depth < 1 {
		return nil, fmt.Errorf("%d receives of %d bytes: %w", depth, rq.size, syscall.EINVAL)
	}
	rq.posted = make([]*Message, depth)
	rq.free = make([]uint32, depth)
	for i := range rq.free {
		rq.free[i] = uint32(depth - 1 - i)
	}
	n := min(depth, maxBatch)
	rq.wrs, rq.sges = make([]verbs.RecvWR, n), make([]verbs.SGE, n)
	for i := range rq.wrs {
		rq.wrs[i].SGList = rq.sges[i : i+1 : i+1]
	}
	if !receiveQueues.add(rq, func(base uint64) { rq.base = base | recvIDs }) {
		return nil, errTooMany
	}
	return rq, nil
}

// open takes all buffers from the pool and posts them. It does not wait for memory of the pool, because
// the users of that memory might never free it. It returns an error instead.
func (rq *receives) open(queue recvQueue) error {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	rq.queue = queue
	for range rq.depth {
		b, err := rq.pool.TryGet(rq.size)
		if err != nil {
			return fmt.Errorf("%d receives of %d bytes: %w", rq.depth, rq.size, err)
		}
		rq.addSpare(rq.message(b))
	}
	return rq.postSpares()
}

// message returns an unused message for a buffer. The caller holds the lock.
func (rq *receives) message(b *pool.Buf) *Message {
	m := rq.unused.pop()
	if m == nil {
		m = &Message{rq: rq}
		m.place.of = m
	}
	m.buf = b
	return m
}

func (rq *receives) addSpare(m *Message) {
	rq.spare.pushFront(&m.place) // the processor may have it in its cache
	rq.spares++
}

// outstanding returns the number of posted receives. The caller holds the lock.
func (rq *receives) outstanding() int { return len(rq.posted) - len(rq.free) }

// missing returns the number of receives for which the queue has room and no buffer. The caller holds the
// lock.
func (rq *receives) missing() int { return rq.depth + rq.extra - rq.outstanding() - rq.spares }

// postSpares posts spare messages. The caller holds the lock.
func (rq *receives) postSpares() error {
	for !rq.stopped && rq.spares > 0 && len(rq.free) > 0 {
		n := min(rq.spares, len(rq.free), len(rq.wrs))
		for i := range n {
			m := rq.spare.pop()
			num := rq.free[len(rq.free)-1-i]
			rq.posted[num] = m
			if rq.order != nil {
				rq.order.of[num] = rq.order.next + uint64(i)
			}
			rq.sges[i] = m.buf.SGE()
			rq.wrs[i].ID = rq.base | uint64(num)
		}
		done, err := rq.queue.PostRecv(rq.wrs[:n])
		for i := n - 1; i >= done; i-- {
			num := uint32(rq.wrs[i].ID)
			rq.spare.pushFront(&rq.posted[num].place)
			rq.posted[num] = nil
		}
		if rq.order != nil {
			rq.order.next += uint64(done)
		}
		rq.spares -= done
		rq.free = rq.free[:len(rq.free)-done]
		if err != nil {
			return err
		}
	}
	return nil
}

// giveBack posts the buffer of a message that is no longer used.
func (rq *receives) giveBack(m *Message) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	rq.recycle(m)
	// An error comes back as a completion, as the failure of the next send, or with the next
	// message that is freed.
	_ = rq.postSpares()
}

// recycle keeps the buffer of a message that is no longer used, or frees it. The caller holds the
// lock.
func (rq *receives) recycle(m *Message) {
	m.to = nil
	b := m.buf
	if rq.pool.Debug() {
		// The pool checks the use of freed memory. A Message that was freed keeps its Buf, which
		// panics.
		m = &Message{rq: rq}
		m.place.of = m
		if fresh, err := rq.pool.TryGet(rq.size); err == nil {
			b.Free()
			b = fresh
		}
	}
	if rq.stopped || rq.missing() <= 0 {
		b.Free()
		m.buf = nil
		rq.unused.pushFront(&m.place)
		return
	}
	m.buf = b
	rq.addSpare(m)
}

// refill takes buffers from the pool in place of the buffers that the program holds.
func (rq *receives) refill() {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	rq.takeDropped()
	rq.reclaim()
	for !rq.stopped && rq.missing() > 0 {
		b, err := rq.pool.TryGet(rq.size)
		if err != nil {
			break // Free of a message posts its buffer
		}
		rq.addSpare(rq.message(b))
	}
	_ = rq.postSpares() // as in giveBack
}

// take returns the message of a completed receive, nil if none with that ID is posted, and the
// receiver of the QP, nil if it has ended. low is set if there are few receives.
func (rq *receives) take(wc *verbs.WC) (m *Message, r *Receiver, low bool) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	num := uint32(wc.ID)
	if m = rq.remove(num); m == nil {
		return nil, nil, false
	}
	r = rq.receivers[wc.QPNum]
	if r != nil && rq.order != nil {
		r.passed = max(r.passed, rq.order.of[num]+1)
	}
	return m, r, rq.missing() > rq.depth/2
}

func (rq *receives) remove(num uint32) *Message {
	if uint64(num) >= uint64(len(rq.posted)) || rq.posted[num] == nil {
		return nil
	}
	m := rq.posted[num]
	rq.posted[num] = nil
	rq.free = append(rq.free, num)
	if rq.order != nil {
		rq.order.returned++
	}
	return m
}

// drop records that a receive of a closed QP has no completion: verbs.SRQConfig.Dropped. It is
// called with locks of the SRQ held, which giveBack takes.
func (rq *receives) drop(id uint64) {
	rq.dropMu.Lock()
	rq.dropped = append(rq.dropped, uint32(id))
	rq.dropMu.Unlock()
}

// takeDropped takes back the receives of drop. The caller holds the lock.
func (rq *receives) takeDropped() {
	rq.dropMu.Lock()
	dropped := rq.dropped
	rq.dropped = nil
	rq.dropMu.Unlock()
	for _, num := range dropped {
		if m := rq.remove(num); m != nil {
			rq.recycle(m)
		}
	}
}

// stop makes later calls post nothing.
func (rq *receives) stop() {
	rq.mu.Lock()
	rq.stopped = true
	rq.mu.Unlock()
}

// release frees the memory after the device can no longer use it.
func (rq *receives) release() {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if rq.stopped && rq.posted == nil {
		return
	}
	rq.stopped = true
	for _, m := range rq.posted {
		if m != nil {
			m.buf.Free()
		}
	}
	for m := rq.spare.pop(); m != nil; m = rq.spare.pop() {
		m.buf.Free()
	}
	rq.posted, rq.free, rq.spares, rq.depth, rq.extra = nil, nil, 0, 0, 0
	receiveQueues.remove(rq.base)
}

var errTooManyHeld = errors.New("the program holds ReceiveConfig.MaxHeld messages of the peer, and another one has arrived")

// completeReceive is Complete for a receive.
func (h *hub) completeReceive(wc *verbs.WC) bool {
	rq := receiveQueues.lookup(wc.ID)
	if rq == nil || wc.ID&^(1<<genShift-1) != rq.base {
		return rq != nil && wc.ID>>indexShift == rq.base>>indexShift // of an earlier queue
	}
	m, r, low := rq.take(wc)
	if m == nil {
		return true // not outstanding
	}
	m.wc = *wc
	if wc.Status != verbs.WCSuccess {
		if r != nil {
			r.failed(wc)
		}
		rq.giveBack(m)
	} else if r == nil || !r.deliver(m) {
		rq.giveBack(m)
	}
	if low {
		h.refillLater(rq)
	}
	return true
}

// refillLater makes Finish take memory for a receive queue.
func (h *hub) refillLater(rq *receives) {
	if rq.refilling.Swap(true) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refills.push(&rq.place)
	h.work.Store(true)
}
