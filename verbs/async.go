// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"sync"

	"purerdma/internal/cdev"
	"purerdma/internal/leak"
	"purerdma/uverbs"
)

// AsyncEventType is the type of an asynchronous event: enum ibv_event_type of
// ibv_get_async_event(3).
type AsyncEventType = uverbs.EventType

// Asynchronous events.
const (
	AsyncCQErr             = uverbs.EventCQErr // the CQ is in error: overrun, as a rule
	AsyncQPFatal           = uverbs.EventQPFatal
	AsyncQPReqErr          = uverbs.EventQPReqErr
	AsyncQPAccessErr       = uverbs.EventQPAccessErr
	AsyncCommEst           = uverbs.EventCommEst // a message came before the QP was in RTS
	AsyncSQDrained         = uverbs.EventSQDrained
	AsyncPathMig           = uverbs.EventPathMig
	AsyncPathMigErr        = uverbs.EventPathMigErr
	AsyncDeviceFatal       = uverbs.EventDeviceFatal // the Device is removed after it, see DeviceRemovedError
	AsyncPortActive        = uverbs.EventPortActive
	AsyncPortErr           = uverbs.EventPortErr
	AsyncLIDChange         = uverbs.EventLIDChange
	AsyncPKeyChange        = uverbs.EventPKeyChange
	AsyncSMChange          = uverbs.EventSMChange
	AsyncSRQErr            = uverbs.EventSRQErr
	AsyncSRQLimitReached   = uverbs.EventSRQLimitReached // fewer receives than SRQAttr.Limit
	AsyncQPLastWQEReached  = uverbs.EventQPLastWQEReached
	AsyncClientReregister  = uverbs.EventClientReregister
	AsyncGIDChange         = uverbs.EventGIDChange
	AsyncWQFatal           = uverbs.EventWQFatal
	AsyncDeviceSpeedChange = uverbs.EventDeviceSpeedChange // of a port. Linux 7 reports it for mlx5
)

// AsyncEvent is an asynchronous event of a device (struct ibv_async_event of
// ibv_get_async_event(3)). At most one of CQ, QP and SRQ is set. It is the object of the event,
// which may have been closed since. There is nothing to acknowledge.
type AsyncEvent struct {
	Type AsyncEventType
	Port uint8 // of events of ports, from 1
	CQ   *CQ
	QP   *QP
	SRQ  *SRQ
	// Lost counts the events before this event that were dropped because the queue was full.
	Lost int
}

// String returns the type and the object of the event, as "QP_FATAL of QP 0x11 of rxe0" or
// "PORT_ERR of port 1".
func (e AsyncEvent) String() string {
	s := e.Type.String()
	switch {
	case e.QP != nil:
		s += " of " + e.QP.String()
	case e.CQ != nil:
		s += " of a CQ of " + e.CQ.Device().Name()
	case e.SRQ != nil:
		s += " of an SRQ of " + e.SRQ.PD().Device().Name()
	case e.Port != 0:
		s += fmt.Sprintf(" of port %d", e.Port)
	}
	if e.Lost > 0 {
		s += fmt.Sprintf(", after %d that are lost", e.Lost)
	}
	return s
}

// maxAsyncEvents bounds the events that an AsyncEvents queues for its user.
const maxAsyncEvents = 1024

// AsyncEvents is a queue of a device's asynchronous events, starting with its creation. Each queue
// gets all events. It keeps the latest 1024 events that the program has not taken, and drops older
// ones. AsyncEvent.Lost counts the dropped events.
type AsyncEvents struct {
	dev   *deviceContext
	leak  *leak.Entry
	ready chan struct{} // one token: look at the queue
	done  chan struct{} // closed by Close

	mu     sync.Mutex
	queue  []AsyncEvent
	lost   int
	closed bool
}

// events is the part of a device that hands out its asynchronous events.
type events struct {
	ch *uverbs.AsyncChannel // nil if the kernel has none

	mu     sync.Mutex
	queues map[*AsyncEvents]struct{}
}

// watch opens the event channel before there are objects, because the kernel drops their events
// otherwise. It reads the channel until the device is closed, because the kernel queues unread
// events without bounds.
func (s *deviceContext) watch() error {
	ch, err := s.file.AllocAsync()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	s.events.ch = ch
	go s.pump()
	return nil
}

func (s *deviceContext) pump() {
	for {
		e, err := s.events.ch.Next(context.Background())
		if errors.Is(err, io.ErrUnexpectedEOF) {
			continue // an interrupted read: try again
		}
		if err != nil {
			s.eventError(err)
			return
		}
		if ev, ok := s.asyncEvent(e); ok {
			s.events.hand(ev)
		}
		if e.Type == AsyncDeviceFatal {
			// The device completes no requests any more, and executes no commands. Its driver may
			// take minutes to reset it, or never do so.
			s.fatal.Store(true)
			s.remove()
			return
		}
	}
}

// asyncEvent finds the object that an event of the kernel names, and reports
// false if there is no object of that kind any more.
func (s *deviceContext) asyncEvent(e uverbs.AsyncEvent) (AsyncEvent, bool) {
	ev := AsyncEvent{Type: e.Type}
	switch e.Type.Element() {
	case uverbs.ElementPort:
		ev.Port = uint8(e.Element)
		return ev, true
	case uverbs.ElementCQ, uverbs.ElementQP, uverbs.ElementSRQ:
	default:
		return ev, true
	}
	found := false
	switch o := s.objects.findMade(e.Element).(type) {
	case *CQ:
		if ev.CQ, found = o, e.Type.Element() == uverbs.ElementCQ; found && e.Type == AsyncCQErr {
			o.markOverrun()
		}
	case *QP:
		ev.QP, found = o, e.Type.Element() == uverbs.ElementQP
		switch e.Type {
		case AsyncQPFatal, AsyncQPReqErr, AsyncQPAccessErr:
			go o.failed()
		case AsyncQPLastWQEReached:
			o.lastWQE.put()
		}
	case *SRQ:
		ev.SRQ, found = o, e.Type.Element() == uverbs.ElementSRQ
	}
	return ev, found
}

// hand puts an event into all queues.
func (s *events) hand(ev AsyncEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range s.queues {
		q.put(ev)
	}
}

func (q *AsyncEvents) put(ev AsyncEvent) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == maxAsyncEvents {
		q.queue = append(q.queue[:0], q.queue[1:]...)
		q.lost++
	}
	q.queue = append(q.queue, ev)
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// AsyncEvents returns a new queue of the device's asynchronous events
// (ibv_get_async_event(3)). The caller closes it.
func (d *Device) AsyncEvents() (*AsyncEvents, error) {
	if d.events.ch == nil {
		return nil, d.opError("watch", fmt.Errorf("asynchronous events: %w", errors.ErrUnsupported))
	}
	if err := d.hold(); err != nil {
		return nil, d.opError("watch", err)
	}
	q := &AsyncEvents{
		dev:   d.deviceContext,
		leak:  leak.Track("asynchronous events", d.info.Name),
		ready: make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	d.events.mu.Lock()
	defer d.events.mu.Unlock()
	if d.events.queues == nil {
		d.events.queues = make(map[*AsyncEvents]struct{})
	}
	d.events.queues[q] = struct{}{}
	return q, nil
}

// Events returns the device's asynchronous events from the first step of the loop
// on, until ctx ends, the device is removed, or the loop is left. The last step
// has the error, if any.
func (d *Device) Events(ctx context.Context) iter.Seq2[AsyncEvent, error] {
	return func(yield func(AsyncEvent, error) bool) {
		q, err := d.AsyncEvents()
		if err != nil {
			yield(AsyncEvent{}, err)
			return
		}
		defer q.Close()
		for {
			ev, err := q.Next(ctx)
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Next waits for an event. It returns the error of ctx when that ends first (os.ErrDeadlineExceeded
// if its deadline passed), and net.ErrClosed after Close. It may be called concurrently. Each event
// goes to one caller.
func (q *AsyncEvents) Next(ctx context.Context) (AsyncEvent, error) {
	ev, err := q.next(ctx)
	return ev, q.dev.opError("wait for asynchronous event of", err)
}

func (q *AsyncEvents) next(ctx context.Context) (AsyncEvent, error) {
	cdev.NeedContext(ctx)
	for {
		if ev, ok, err := q.take(); ok || err != nil {
			return ev, err
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return AsyncEvent{}, cdev.ContextError(ctx)
		case <-q.done:
			return AsyncEvent{}, net.ErrClosed
		case <-q.dev.removed:
			// Events that were queued before the removal are still returned.
			if ev, ok, err := q.take(); ok || err != nil {
				return ev, err
			}
			return AsyncEvent{}, net.ErrClosed
		}
	}
}

// take takes the first event out, and wakes the next waiter if there are more.
func (q *AsyncEvents) take() (AsyncEvent, bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return AsyncEvent{}, false, net.ErrClosed
	}
	if len(q.queue) == 0 {
		return AsyncEvent{}, false, nil
	}
	ev := q.queue[0]
	q.queue = q.queue[1:]
	ev.Lost, q.lost = q.lost, 0
	if len(q.queue) > 0 {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
	return ev, true, nil
}

// Close ends the queue and its Next. It may be called more than once.
func (q *AsyncEvents) Close() error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	q.queue = nil
	q.mu.Unlock()
	close(q.done)
	q.dev.events.mu.Lock()
	delete(q.dev.events.queues, q)
	q.dev.events.mu.Unlock()
	q.leak.Done()
	return q.dev.opError("close asynchronous events of", q.dev.unref())
}
