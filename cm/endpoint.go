// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/inflight"
	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// endpoint holds the parts that the stages of a connection have in common. These are an ID on
// its own channel and one goroutine that fetches its events. The goroutine receives the events
// that no call waits for, such as the peer's disconnect and the removal of the device.
type endpoint struct {
	ch     *EventChannel
	id     *ID
	pumped chan struct{} // closed when the goroutine has ended

	outcome chan struct{} // closed when the attempt to connect has an outcome
	peer    ConnParam     // parameters that the peer sent with the outcome.
	peerUD  UDParam       // parameters of a datagram peer.
	failure error         // error of the attempt, nil if it has not failed

	ended chan struct{} // closed when the peer or the device has ended the connection
	end   End
	cause error // error of operations after the end

	// over ends with the connection, whichever side ended it.
	over       context.Context
	cancelOver context.CancelFunc

	// first holds the error that made the connection unusable without ending it. It is usually
	// a *BrokenError.
	first atomic.Pointer[error]

	receiving receiving
	ops       atomic.Pointer[inflight.Queue] // nil before the first operation
	log       atomic.Pointer[inflight.Log]   // of Conn.SetLog

	slot    *slot                      // slot in the counts of the listener.
	idle    atomic.Pointer[time.Timer] // timer of the keepalive, nil if there is none
	closing sync.Mutex
	closed  bool

	counted       atomic.Uint32 // as an established connection of the Host: notCounted, openCounted or endCounted
	brokenCounted atomic.Bool   // its failure was counted
	finished      atomic.Bool   // end is set
}

// newEndpoint takes over a channel and the only ID on it.
func newEndpoint(ch *EventChannel, id *ID) *endpoint {
	over, cancel := context.WithCancel(context.Background())
	id.mu.Lock()
	id.blocking = true
	id.mu.Unlock()
	return &endpoint{
		ch:         ch,
		id:         id,
		pumped:     make(chan struct{}),
		outcome:    make(chan struct{}),
		ended:      make(chan struct{}),
		over:       over,
		cancelOver: cancel,
	}
}

// pump fetches events until the channel is closed.
func (ep *endpoint) pump() {
	defer ep.markOver()
	defer close(ep.pumped)
	for {
		ev, err := ep.ch.Next(context.Background())
		if err != nil {
			// The channel is closed or has failed. In both cases no more events will come.
			if !errors.Is(err, net.ErrClosed) {
				ep.first.CompareAndSwap(nil, &err)
			}
			ep.setOutcome(&Event{}, err)
			return
		}
		ep.handle(ev)
		ev.Ack()
	}
}

func (ep *endpoint) handle(ev *Event) {
	switch ev.Type {
	case EventEstablished:
		ep.setOutcome(ev, nil)
	case EventRejected, EventConnectError, EventUnreachable:
		// An event that has not changed the state is a hint, such as UNREACHABLE on an
		// established ID.
		switch s := ep.id.State(); {
		case s == StateFailed:
			ep.setOutcome(ev, ev.Err())
		case s == StateDisconnected && ev.Type == EventRejected:
			ep.setOutcome(ev, ev.Err())
			ep.finish(ev)
		}
	case EventDisconnected:
		// Answer the peer. Otherwise it waits for the answer until its retries are used up.
		ep.id.Disconnect()
		ep.finish(ev)
		ep.setOutcome(ev, ep.endedBeforeConfirmed(ev))
	case EventDeviceRemoval:
		ep.setOutcome(ev, ev.Err())
		ep.finish(ev)
	}
}

// endedBeforeConfirmed returns the error of the attempt to connect that a DISCONNECTED event
// ends. It is nil on the accepting side if the peer has disconnected. That peer had the
// connection and may have sent messages, which the receives hold. Its DREQ only overtook its
// RTU, or the RTU was lost (cm_dreq_handler accepts a DREQ in IB_CM_REP_SENT).
func (ep *endpoint) endedBeforeConfirmed(ev *Event) error {
	if ep.id.passive && ep.end.Event == EventDisconnected && !ep.end.Local {
		return nil
	}
	return ev.Err()
}

// setOutcome records the outcome of connecting. Only the goroutine of pump calls it.
func (ep *endpoint) setOutcome(ev *Event, err error) {
	select {
	case <-ep.outcome:
	default:
		ep.peer, ep.peerUD, ep.failure = ev.Conn, ev.UD, err
		close(ep.outcome)
	}
}

func (ep *endpoint) finish(ev *Event) {
	select {
	case <-ep.ended:
		return
	default:
	}
	ep.end = End{Event: ev.Type, Status: ev.Status}
	ep.cause = ev.Err().(*OpError).Err
	switch ev.Type {
	case EventRejected: // reports only that the peer has ended the connection
		ep.end = End{Event: EventDisconnected}
		ep.cause = &DisconnectedError{}
	case EventDisconnected:
		ep.end.Local = ep.id.leaving.Load()
		ep.cause = &DisconnectedError{Status: ev.Status, Local: ep.end.Local}
		switch dev := ep.id.Device(); {
		case dev != nil && !ep.end.Local && removed(dev):
			// Another ID has received the removal first, and the library has released the
			// device. On iWARP that ends the streams of all its QPs before the kernel has
			// reported the removal to this ID.
			ep.end, ep.cause = End{Event: EventDeviceRemoval}, ep.id.removedError()
		case ev.failed:
			ep.broke("", flushError{ep.qpNum()})
		}
	}
	ep.finished.Store(true)
	ep.countEnd(ep.end.endCounter)
	close(ep.ended)
	ep.markOver()
}

// removed reports whether a device is known to have been removed.
func removed(dev *verbs.Device) bool {
	select {
	case <-dev.Done():
		return true
	default:
		return false
	}
}

// markOver ends the context over, and stops the receiver of the connection. It may be called more than once.
func (ep *endpoint) markOver() {
	ep.cancelOver()
	ep.receiving.stop()
}

// unusable returns the reason why an operation cannot use the connection, nil if it can. After
// Close the reason is net.ErrClosed, whatever came before, because the program has closed the
// connection itself.
func (ep *endpoint) unusable() error {
	if ep.id.gate.isShut() {
		return net.ErrClosed
	}
	return ep.failed()
}

// failed returns the first error that made the connection unusable without ending it, nil if
// there is none.
func (ep *endpoint) failed() error {
	if first := ep.first.Load(); first != nil {
		return *first
	}
	return nil
}

// giveUp records err as the reason for the flush of the QP, and wakes the goroutines that wait
// on the connection.
func (ep *endpoint) giveUp(err *BrokenError) {
	err.History = ep.history()
	given := error(err)
	if ep.first.CompareAndSwap(nil, &given) {
		ep.recordBroken(err)
		ep.countBroken()
		ep.markOver()
	}
}

// broke records that the QP has failed, with the operation and the error that showed it. op is "" for a
// flush and for an invalid completion. A failure that names its cause replaces a flush, which may have been
// found earlier.
func (ep *endpoint) broke(op string, err error) {
	for {
		first := ep.first.Load()
		if first != nil {
			if was, ok := (*first).(*BrokenError); !ok || was.Op != "" || !isFlush(was.Err) || isFlush(err) {
				return
			}
		}
		broken := &BrokenError{Op: op, Err: err, History: ep.history()}
		given := error(broken)
		if ep.first.CompareAndSwap(first, &given) {
			ep.recordBroken(broken)
			if first == nil {
				ep.countBroken()
			}
			ep.markOver()
			return
		}
	}
}

// qpNum returns the number of the connection's QP, 0 if it has been closed.
func (ep *endpoint) qpNum() uint32 {
	if qp := ep.id.QP(); qp != nil {
		return qp.Num()
	}
	return 0
}

// await starts an attempt to connect and waits for its outcome. start runs in its own goroutine
// because a command may block in the kernel where no context reaches it. If ctx ends first,
// await closes the endpoint and leaves start behind. limit bounds the number of goroutines in
// start, and on iWARP also in the DESTROY_ID that follows, unless it is nil. An error also has the
// failures of the close.
func (ep *endpoint) await(ctx context.Context, op string, limit *connectLimit, start func() error) error {
	cdev.NeedContext(ctx)
	if ctx.Err() != nil {
		return alsoFailed(ep.id.opError(op, attemptEnded(ctx)), ep.close())
	}
	var slot *connectSlot
	if limit != nil {
		var err error
		if slot, err = limit.enter(ctx); err != nil {
			return alsoFailed(ep.id.opError(op, err), ep.close())
		}
	}
	ep.id.occupy(slot)
	defer slot.abandon()
	started := make(chan error, 1)
	go func() {
		err := start()
		slot.leave()
		started <- err
	}()
	for {
		select {
		case err := <-started:
			if err != nil {
				return alsoFailed(err, ep.close())
			}
			started = nil
		case <-ep.outcome:
			if ep.failure != nil {
				return alsoFailed(ep.failure, ep.close())
			}
			ep.id.vacate()
			return nil
		case <-ctx.Done():
			slot.abandon()
			return alsoFailed(ep.id.opError(op, attemptEnded(ctx)), ep.closeWithin(cancelGrace))
		}
	}
}

// attemptEnded returns the error of an attempt whose context has ended.
func attemptEnded(ctx context.Context) error {
	if context.Cause(ctx) == errNotConfirmed {
		return errNotConfirmed // the caller's context has not ended
	}
	return cdev.ContextError(ctx)
}

// alsoFailed returns err, and behind its cause the error of a clean-up that followed. Both may be nil.
func alsoFailed(err, cleanUp error) error {
	switch {
	case cleanUp == nil:
		return err
	case err == nil:
		return cleanUp
	}
	oe, ok := err.(*OpError)
	if !ok {
		return errors.Join(err, cleanUp)
	}
	both := *oe // err may be the endpoint's
	both.Err = errors.Join(oe.Err, cleanUp)
	return &both
}

// cancelGrace bounds how long a cancelled call waits for its clean-up.
const cancelGrace = 100 * time.Millisecond

// close ends the connection or the attempt, and closes the ID and the channel.
func (ep *endpoint) close() error { return ep.closeWithin(closeGrace) }

// closeWithin is close with a bound on the wait for the kernel. After d the close continues in
// the background. Another call tries the failed parts again.
func (ep *endpoint) closeWithin(d time.Duration) error {
	ep.closing.Lock()
	defer ep.closing.Unlock()
	if ep.closed {
		return errors.Join(ep.id.Close(), ep.receiving.close())
	}
	ep.closed = true
	if ep.counted.Load() != notCounted {
		ep.ch.counters().open.Add(-1)
		ep.countEnd(closedCounter)
	}
	if timer := ep.idle.Load(); timer != nil {
		timer.Stop()
	}
	return within(d, func() error {
		err := ep.id.Close()
		err = errors.Join(err, ep.receiving.close(), ep.ch.Close())
		<-ep.pumped
		ep.slot.release()
		return err
	})
}

// device returns the ID's device.
func (ep *endpoint) device() *verbs.Device { return ep.id.Device() }

// defaultQP returns the ID's QP. If there is none, it makes one on the connection's PD.
func (ep *endpoint) defaultQP(cfg verbs.QPConfig) (*verbs.QP, error) {
	if qp := ep.id.QP(); qp != nil {
		return qp, nil
	}
	if err := ep.id.CreateQP(nil, cfg); err != nil {
		return nil, err
	}
	return ep.id.QP(), nil
}

// use attaches the QP that a caller named, if it is not attached already. nil means the default
// QP.
func (ep *endpoint) use(qp *verbs.QP, cfg verbs.QPConfig) (*verbs.QP, error) {
	if qp == nil {
		return ep.defaultQP(cfg)
	}
	if ep.id.QP() == qp {
		return qp, nil
	}
	if err := ep.id.UseQP(qp); err != nil {
		return nil, err
	}
	return qp, nil
}

// postRecv posts one receive on a QP. It does not allocate. The caller's slice sg stays on the
// stack, because verbs.QP.PostRecv does not let it escape.
func (ep *endpoint) postRecv(qp *verbs.QP, wrID uint64, sg []verbs.SGE) error {
	if ep.id.gate.isShut() {
		return ep.id.opError(opRecv, net.ErrClosed)
	}
	if _, err := qp.PostRecv([]verbs.RecvWR{{ID: wrID, SGList: sg}}); err != nil {
		return ep.id.opError(opRecv, err)
	}
	return nil
}
