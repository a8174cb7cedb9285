// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// endpoint is what the stages of a connection have in common: an ID on a channel
// of its own, and one goroutine that fetches its events. The goroutine sees what
// nobody asked for: the peer's disconnect, the removal of the device.
type endpoint struct {
	ch     *EventChannel
	id     *ID
	pumped chan struct{} // closed when the goroutine has ended

	settled chan struct{} // closed when the attempt to connect has an outcome
	peer    ConnParam     // what the peer sent with it
	peerUD  UDParam       // the same, for datagrams
	failure error         // why it failed, nil if it has not

	ended chan struct{} // closed when the peer or the device has ended the connection
	end   End
	cause error // what operations fail with after the end

	// over ends with the connection, whoever ended it.
	over       context.Context
	cancelOver context.CancelFunc

	// first is why the connection is of no more use though it stands, or stood: usually a
	// *BrokenError.
	first atomic.Pointer[error]

	slot    *slot       // in the counts of the listener
	idle    *time.Timer // of the keepalive, nil if there is none
	closing sync.Mutex
	closed  bool
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
		settled:    make(chan struct{}),
		ended:      make(chan struct{}),
		over:       over,
		cancelOver: cancel,
	}
}

// pump fetches events until the channel is closed.
func (ep *endpoint) pump() {
	defer ep.cancelOver()
	defer close(ep.pumped)
	for {
		ev, err := ep.ch.Next(context.Background())
		if err != nil {
			// Closed, or out of order: in both cases nothing more will come.
			if !errors.Is(err, net.ErrClosed) {
				ep.first.CompareAndSwap(nil, &err)
			}
			ep.settle(&Event{}, err)
			return
		}
		ep.handle(ev)
		ev.Ack()
	}
}

func (ep *endpoint) handle(ev *Event) {
	switch ev.Type {
	case EventEstablished:
		ep.settle(ev, nil)
	case EventRejected, EventConnectError, EventUnreachable:
		// What changed nothing is a hint, as UNREACHABLE on an established ID.
		switch s := ep.id.State(); {
		case s == StateFailed:
			ep.settle(ev, ev.Err())
		case s == StateDisconnected && ev.Type == EventRejected:
			ep.settle(ev, ev.Err())
			ep.finish(ev)
		}
	case EventDisconnected:
		// Answer, or the peer waits for it until its retries are used up.
		ep.id.Disconnect()
		ep.finish(ev)
		ep.settle(ev, ep.endedBeforeConfirmed(ev))
	case EventDeviceRemoval:
		ep.settle(ev, ev.Err())
		ep.finish(ev)
	}
}

// endedBeforeConfirmed returns the error of the attempt to connect that a DISCONNECTED event
// ends. It is nil on the accepting side if the peer has disconnected: the peer had the
// connection and may have sent messages, which the receives hold. Its DREQ only overtook
// its RTU, or the RTU was lost (cm_dreq_handler accepts a DREQ in IB_CM_REP_SENT).
func (ep *endpoint) endedBeforeConfirmed(ev *Event) error {
	if ep.id.passive && ep.end.Event == EventDisconnected && !ep.end.Local {
		return nil
	}
	return ev.Err()
}

// settle notes the outcome of connecting. Only the pump calls it, and finish.
func (ep *endpoint) settle(ev *Event, err error) {
	select {
	case <-ep.settled:
	default:
		ep.peer, ep.peerUD, ep.failure = ev.Conn, ev.UD, err
		close(ep.settled)
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
	case EventRejected: // the peer's word for its end, and for nothing else
		ep.end = End{Event: EventDisconnected}
		ep.cause = &DisconnectedError{}
	case EventDisconnected:
		ep.end.Local = ep.id.leaving.Load()
		ep.cause = &DisconnectedError{Status: ev.Status, Local: ep.end.Local}
		switch dev := ep.id.Device(); {
		case dev != nil && !ep.end.Local && removed(dev):
			// Another ID has heard of the removal first, and the device was let go
			// of: on iWARP that ends the streams of all its QPs, before the kernel
			// has come to this ID.
			ep.end, ep.cause = End{Event: EventDeviceRemoval}, ep.id.removedError()
		case ev.failed:
			ep.broke("", errFlushed)
		}
	}
	close(ep.ended)
	ep.cancelOver()
}

// removed says whether it is known of a device that it has been removed.
func removed(dev *verbs.Device) bool {
	select {
	case <-dev.Done():
		return true
	default:
		return false
	}
}

// unusable returns why the connection is of no more use to an operation, nil if it
// is: who has closed it knows that, whatever came before.
func (ep *endpoint) unusable() error {
	if ep.id.gate.isShut() {
		return net.ErrClosed
	}
	return ep.failed()
}

// failed returns what came first of what makes the connection useless though it
// stands, nil if nothing did.
func (ep *endpoint) failed() error {
	if first := ep.first.Load(); first != nil {
		return *first
	}
	return nil
}

// giveUp notes that the QP has been flushed, and wakes who waits on it.
func (ep *endpoint) giveUp(err *BrokenError) {
	given := error(err)
	if ep.first.CompareAndSwap(nil, &given) {
		ep.cancelOver()
	}
}

// broke notes that the QP has failed, and what showed it. A failure that names its
// cause comes before a flush, which may have been found earlier.
func (ep *endpoint) broke(op string, err error) {
	for {
		first := ep.first.Load()
		if first != nil {
			if was, ok := (*first).(*BrokenError); !ok || was.Op != "" || op == "" {
				return
			}
		}
		broken := error(&BrokenError{Op: op, Err: err})
		if ep.first.CompareAndSwap(first, &broken) {
			ep.cancelOver()
			return
		}
	}
}

// await starts an attempt to connect and waits for its outcome. start runs in a
// goroutine of its own because a command may block in the kernel where no context
// reaches it: if ctx ends first, the endpoint is closed and start left behind. limit
// bounds the goroutines in start, unless it is nil.
func (ep *endpoint) await(ctx context.Context, op string, limit *connectLimit, start func() error) error {
	cdev.NeedContext(ctx)
	if ctx.Err() != nil {
		ep.close()
		return ep.id.opError(op, cdev.ContextError(ctx))
	}
	var slot *connectSlot
	if limit != nil {
		var err error
		if slot, err = limit.enter(ctx); err != nil {
			ep.close()
			return ep.id.opError(op, err)
		}
	}
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
				ep.close()
				return err
			}
			started = nil
		case <-ep.settled:
			if ep.failure != nil {
				ep.close()
			}
			return ep.failure
		case <-ctx.Done():
			slot.abandon()
			ep.closeWithin(cancelGrace)
			return ep.id.opError(op, cdev.ContextError(ctx))
		}
	}
}

// cancelGrace is how long who has cancelled waits for what was begun to be undone.
const cancelGrace = 100 * time.Millisecond

// close ends whatever there is.
func (ep *endpoint) close() error { return ep.closeWithin(closeGrace) }

// closeWithin is close that waits for the kernel only so long; it goes on in the
// background. Called again it tries again what has failed.
func (ep *endpoint) closeWithin(d time.Duration) error {
	ep.closing.Lock()
	defer ep.closing.Unlock()
	if ep.closed {
		return ep.id.Close()
	}
	ep.closed = true
	if ep.idle != nil {
		ep.idle.Stop()
	}
	return within(d, func() error {
		err := ep.id.Close()
		err = errors.Join(err, ep.ch.Close())
		<-ep.pumped
		ep.slot.release()
		return err
	})
}

// device is the ID's device.
func (ep *endpoint) device() *verbs.Device { return ep.id.Device() }

// defaultQP returns the ID's QP, making one on the connection's PD if there is
// none.
func (ep *endpoint) defaultQP(cfg verbs.QPConfig) (*verbs.QP, error) {
	if qp := ep.id.QP(); qp != nil {
		return qp, nil
	}
	if err := ep.id.CreateQP(nil, cfg); err != nil {
		return nil, err
	}
	return ep.id.QP(), nil
}

// use attaches the QP that a caller named, if it is not attached already: nil
// means the default one.
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

// postRecv posts one receive on a QP. It does not allocate: the slice sg of the caller
// stays on its stack, because the receive goes through memory of the endpoint.
func (ep *endpoint) postRecv(qp *verbs.QP, wrID uint64, sg []verbs.SGE) error {
	if ep.id.gate.isShut() {
		return ep.id.opError(opRecv, net.ErrClosed)
	}
	if _, err := qp.PostRecv([]verbs.RecvWR{{ID: wrID, SGList: sg}}); err != nil {
		return ep.id.opError(opRecv, err)
	}
	return nil
}
