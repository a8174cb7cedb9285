// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/cm"
	"purerdma/pool"
	"purerdma/verbs"
)

// flightBit marks the lanes whose connections are flights.
const flightBit = 1 << 30

// isFlight reports whether the connections of a lane are flights. They are an eighth, of
// which half connects to other processes. Each flight has many goroutines.
func isFlight(lane uint32) bool { return lane%16 == 5 || lane%16 == 7 }

// Resources of a flight.
const (
	flightRecvs = 2*window + 2 // the peer's messages, the answers to own messages, and the end
	maxWorkers  = 5            // each has a cell and a word
	counter     = words - 1    // word that all workers increment
)

// flight is one side of a connection on which many goroutines call the methods of a cm.Conn at a
// time. Their memory comes from a pool that all flights of a PD share. The peer answers each message
// with its checksum. So a message needs a credit, which comes back with the answer. Each worker
// has a cell and a word of the peer's region.
type flight struct {
	s         *soak
	node      *node
	name      string
	lane, gen uint32
	side      int // 0 for the active side
	plan      plan
	cancel    bool // whether cancelled calls precede the planned end
	pd        *verbs.PD
	place     *place // of a send CQ with other users, or nil
	buffers   *pool.Pool
	send      *verbs.CQ // of this flight only, or nil
	recv      *verbs.CQ
	qp        *verbs.QP
	mem       *memory
	conn      *cm.Conn
	dropped   func() bool // whether a failure is expected because the peer was killed

	over     context.Context // ends with the reason why the connection is to be closed
	end      context.CancelCauseFunc
	quitting atomic.Bool // the orderly end has begun, after which the peer may close
	progress atomic.Int64
	steps    atomic.Int64

	credits    chan struct{} // for messages to the peer
	writtenOff chan struct{} // credits of abandoned messages
	heard      chan struct{} // closed when the first message has arrived
	fin        chan struct{} // closed when the last message has arrived

	mu      sync.Mutex
	seq     uint64             // of the last message
	sent    map[uint64]message // messages without an answer
	results map[uint64]bool    // results of the increments of the counter

	// The receiving goroutine owns the following fields.
	recvs [flightRecvs]*pool.Buf // posted receives
	last  [maxWorkers]uint64     // number of the last message of each worker of the peer
}

// message is a sent message without an answer.
type message struct {
	sum       uint32
	abandoned bool
}

var (
	errDone      = errors.New("both sides have finished")
	errPeerEnded = errors.New("the peer has ended the connection")
	errStopped   = errors.New("the test has failed")
)

// newFlight creates a side with its unconnected QP.
func newFlight(n *node, lane, gen uint32, side int) (*flight, error) {
	rng := n.s.rand(lane, gen)
	f := &flight{
		s: n.s, node: n, lane: lane, gen: gen, side: side, plan: newPlan(rng), cancel: rng.IntN(3) == 0,
		dropped: func() bool { return false },
		credits: make(chan struct{}, window), writtenOff: make(chan struct{}, window/2),
		heard: make(chan struct{}), fin: make(chan struct{}),
		sent: map[uint64]message{}, results: map[uint64]bool{},
	}
	if f.cancel {
		f.plan.ending = disconnect
	}
	f.over, f.end = context.WithCancelCause(context.Background())
	for range window {
		f.credits <- struct{}{}
	}
	f.name = fmt.Sprintf("flight %d.%d, %s side (ends %v)", lane&^flightBit, gen, [...]string{"active", "passive"}[side], f.plan.ending)
	if err := f.open(); err != nil {
		f.free()
		return nil, err
	}
	return f, nil
}

// open creates the objects of the side.
func (f *flight) open() (err error) {
	n := f.node
	f.pd = n.pds[f.lane%uint32(len(n.pds))]
	send := n.flightCQ
	switch how := n.s.rand(f.lane, f.gen, uint32(f.side)).IntN(4); how {
	case 0: // a CQ of its own
		if f.send, err = n.dev.CreateCQ(verbs.CQConfig{Entries: 2 * sendDepth}); err != nil {
			return err
		}
		send = f.send
	case 1, 2: // a CQ with waiters of the program, possibly with raw QPs
		if f.place, err = n.place([]mode{ownCQ, sharedCQ}[how-1]); err != nil {
			return err
		}
		send = f.place.send.cq
	}
	f.buffers = n.buffers[f.pd]
	if f.recv, err = n.dev.CreateCQ(verbs.CQConfig{Entries: 2 * flightRecvs}); err != nil {
		return err
	}
	f.qp, err = f.pd.CreateQP(verbs.QPConfig{SendCQ: send, RecvCQ: f.recv, Cap: verbs.QPCap{SendWR: sendDepth, RecvWR: flightRecvs, SendSGE: 1, RecvSGE: 1}})
	if err != nil {
		return err
	}
	f.mem, err = newMemory(f.pd, n.caps.access)
	return err
}

// post posts all receives, once the QP accepts them.
func (f *flight) post(ctx context.Context) error {
	for slot := range f.recvs {
		if err := f.postRecv(ctx, slot); err != nil {
			return err
		}
	}
	return nil
}

func (f *flight) postRecv(ctx context.Context, slot int) error {
	b, err := f.get(ctx, slotLen)
	if err != nil {
		return err
	}
	f.recvs[slot] = b
	_, err = f.qp.PostRecv([]verbs.RecvWR{{ID: recvBit | uint64(slot), SGList: []verbs.SGE{b.SGE()}}})
	return err
}

func (f *flight) param() *cm.ConnParam {
	h := hello{f.lane, f.gen, f.mem.mr.Remote()}
	return &cm.ConnParam{PrivateData: h.bytes(), ResponderResources: readDepth, InitiatorDepth: readDepth}
}

// activeFlight is one connection of a lane.
func (n *node) activeFlight(ctx context.Context, r *cm.Resolved, lane, gen uint32, to target) error {
	f, err := newFlight(n, lane, gen, 0)
	if err != nil {
		return err
	}
	defer f.free()
	f.dropped = to.dropped
	if err := r.Init(f.qp); err != nil {
		return err
	}
	if err := f.post(ctx); err != nil {
		return err
	}
	conn, err := n.connect(r, f.qp, f.param())
	if err != nil {
		return err
	}
	if err := f.mem.meet(lane, gen, conn.PrivateData()); err != nil {
		return errors.Join(err, conn.Close())
	}
	n.s.stats.flights.Add(1)
	f.run(conn)
	return nil
}

func (n *node) passiveFlight(ctx context.Context, req *cm.Request, lane, gen uint32) error {
	f, err := newFlight(n, lane, gen, 1)
	if err != nil {
		return err
	}
	defer f.free()
	if err := errors.Join(f.mem.meet(lane, gen, req.PrivateData()), req.Init(f.qp)); err != nil {
		return err
	}
	if err := f.post(ctx); err != nil {
		return err
	}
	conn, err := req.Accept(ctx, f.qp, f.param())
	if n.givenUp(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	f.run(conn)
	return nil
}

// run runs the connection until its end, and closes it.
func (f *flight) run(conn *cm.Conn) {
	f.conn = conn
	defer context.AfterFunc(f.s.failed, func() { f.end(errStopped) })()
	var running sync.WaitGroup
	running.Go(f.receive)
	running.Go(f.work)
	f.watch()
	f.close()
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-time.After(f.s.patience):
		f.fault("calls have not returned %v after the connection was closed (%w)", f.s.patience, context.Cause(f.over))
	}
	f.check("closing a QP", f.qp.Close())
	select {
	case <-done:
	case <-time.After(f.s.patience):
		panic(f.name + ": calls have not returned after the QP was closed") // with the stacks
	}
}

// work runs the workers and the orderly end.
func (f *flight) work() {
	if f.side == 1 {
		select { // as iWARP requires
		case <-f.heard:
		case <-f.over.Done():
			return
		}
	}
	rng := f.s.rand(f.lane, f.gen, uint32(f.side)+10)
	var workers sync.WaitGroup
	steps := f.plan.quota[f.side]
	for id := range 2 + rng.IntN(maxWorkers-1) {
		w := &worker{f: f, id: id, rng: f.s.rand(f.lane, f.gen, uint32(f.side)+20, uint32(id))}
		if id == 0 && f.side == 0 {
			if err := w.send(); err != nil { // so that the peer starts
				f.broke(err)
				return
			}
		}
		workers.Go(func() { w.run(steps / 4) })
	}
	workers.Wait()
	if f.over.Err() == nil {
		f.conclude()
	}
}
