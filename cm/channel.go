// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"iter"
	"net"
	"sync"
	"sync/atomic"

	"purerdma/internal/cdev"
	"purerdma/internal/lograte"
	"purerdma/ucma"
	"purerdma/verbs"
)

// EventChannel is an open connection manager with a queue of events (struct
// rdma_event_channel, rdma_create_event_channel(3)). It costs one file descriptor.
//
// Next fetches an event from the kernel. The library acts on the event only then: it opens the
// device, or moves the QP. It does nothing in the background, and unfetched connect requests
// still count for a listener's backlog.
//
// All methods may be called concurrently.
type EventChannel struct {
	file *ucma.File
	host *verbs.Host
	turn cdev.Turn  // held from fetching an event to the end of its transition
	raw  ucma.Event // the last event in the kernel's format, guarded by turn

	mu      sync.Mutex
	ids     map[uint64]*ID // by the uid of the ID or of its membership, nil after Close
	dropped atomic.Uint64
	refused lograte.Counter // connect requests that the library refused
}

// lastUID is the number of the newest ID. Numbers are unique in the process, because an ID
// keeps its number when it migrates to another channel. A number is never 0, because the
// kernel drops the events of number 0.
var lastUID atomic.Uint64

// NewEventChannel opens a channel (rdma_create_event_channel(3)). Its IDs use the devices of
// host, or of verbs.DefaultHost if host is nil.
func NewEventChannel(host *verbs.Host) (*EventChannel, error) {
	if host == nil {
		host = verbs.DefaultHost()
	}
	file, err := openCM(host)
	if err != nil {
		return nil, &OpError{Op: opOpen, Err: err}
	}
	return newEventChannel(file, host), nil
}

// openCM opens the connection manager of the host's kernel. It is the running kernel's, unless
// host.Kernel implements ucma.Kernel, as in tests.
func openCM(host *verbs.Host) (*ucma.File, error) {
	if k, ok := host.Kernel.(ucma.Kernel); ok {
		return ucma.OpenOn(k, host.Trace)
	}
	return ucma.Open(host.Trace)
}

func newEventChannel(file *ucma.File, host *verbs.Host) *EventChannel {
	ch := &EventChannel{file: file, host: host, ids: map[uint64]*ID{}}
	ch.turn.Init()
	return ch
}

// Next returns the next event. It waits if there is none (rdma_get_cm_event(3)). Its errors
// are errors of the channel, such as the context's error or net.ErrClosed. Errors of an ID
// come as events. If ctx has ended already, Next does not wait. It returns a queued event, or
// the error of ctx.
func (ch *EventChannel) Next(ctx context.Context) (*Event, error) {
	for {
		ev, err := ch.next(ctx)
		if err != nil {
			return nil, &OpError{Op: opEvent, Err: err}
		}
		if ev != nil {
			ch.log(ev)
			return ev, nil
		}
	}
}

// Events returns the events as they come, until ctx ends or the channel is closed. The last
// pair holds the error.
func (ch *EventChannel) Events(ctx context.Context) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		for {
			ev, err := ch.Next(ctx)
			if !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

// Dropped returns the number of events that belong to no open ID of the channel. Examples are
// the events of connect requests that could not be taken up, and of IDs that have been closed.
func (ch *EventChannel) Dropped() uint64 { return ch.dropped.Load() }

// Close closes the channel and every ID on it. Next then returns net.ErrClosed. Work that the
// kernel does not finish within two seconds continues in the background. Close may be called
// more than once.
func (ch *EventChannel) Close() error {
	ch.mu.Lock()
	ids := ch.ids
	ch.ids = nil
	ch.mu.Unlock()
	var err error
	if len(ids) > 0 {
		err = within(closeGrace, func() error {
			var wg sync.WaitGroup
			errs := make(chan error, len(ids))
			for _, id := range ids {
				wg.Go(func() { errs <- id.closeOn(ch) })
			}
			wg.Wait()
			close(errs)
			var all []error
			for err := range errs {
				all = append(all, err)
			}
			return errors.Join(all...)
		})
	}
	// Closing the file waits for commands that are still in the kernel.
	return errors.Join(err, within(closeGrace, ch.file.Close))
}

// next fetches one event and makes its transition. It returns nil for an event that is not
// delivered to the program.
func (ch *EventChannel) next(ctx context.Context) (*Event, error) {
	cdev.NeedContext(ctx)
	// The turn keeps transitions in the order of the events when several goroutines fetch
	// them.
	if err := ch.turn.Take(ctx); err != nil {
		return nil, err
	}
	defer ch.turn.Give()
	raw := &ch.raw
	if err := ch.file.ReadEvent(ctx, raw); err != nil {
		return nil, errors.Unwrap(err)
	}
	var ev *Event
	if EventType(raw.Type) == EventConnectRequest {
		ev = ch.takeRequest(raw)
	} else if id := ch.find(raw.UID); id != nil && id.enter(opEvent) == nil {
		switch m := id.membership(raw.UID); {
		case EventType(raw.Type).multicast() != (m != nil):
			// The kernel does not send this.
		case m != nil:
			ev = id.applyMulticast(m, raw)
		case id.kid == raw.ID:
			ev = id.apply(raw)
		}
		id.leave()
	}
	if ev == nil {
		ch.dropped.Add(1)
	}
	return ev, nil
}

func (ch *EventChannel) find(uid uint64) *ID {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.ids[uid]
}

// addAs registers an ID under its own number or under the number of a membership. It fails if
// the channel is closed.
func (ch *EventChannel) addAs(uid uint64, id *ID) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.ids == nil {
		return net.ErrClosed
	}
	ch.ids[uid] = id
	return nil
}

func (ch *EventChannel) remove(uid uint64) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.ids, uid)
}

// takeRequest makes the ID of a connect request. It refuses and logs a request that it cannot
// take up, for example on a device that this process cannot open. Such a request is no error,
// because the peer chooses the device. If descriptors or memory have run out, the listener
// gets a CONNECT_ERROR instead, so that the program can wait.
func (ch *EventChannel) takeRequest(raw *ucma.Event) *Event {
	listener := ch.find(raw.UID)
	if listener == nil {
		ch.file.DestroyID(raw.ID)
		return nil
	}
	id := newID(ch, raw.ID, listener.ps, listener.qpType)
	id.passive = true
	id.state = StateRequested
	ev := &Event{Type: EventConnectRequest, ID: id, Listener: listener, Status: int(raw.Status)}
	ev.take(raw)
	id.requested = depths{uint8(ev.Conn.ResponderResources), uint8(ev.Conn.InitiatorDepth)}
	id.noteECE(raw)
	id.mu.Lock()
	id.recordEvent(ev)
	id.mu.Unlock()
	// The ID is complete before the channel lists it, because Close closes the listed IDs.
	if ch.addAs(id.uid, id) != nil {
		ch.file.DestroyID(raw.ID)
		id.leak.Done()
		return nil
	}
	if err := id.bindDevice(); err != nil {
		var gone *ucma.OpError
		var removed *verbs.DeviceRemovedError
		switch {
		case id.gate.isShut(): // the channel is closed
			return nil
		case exhausted(err):
			id.Close()
			ev = &Event{Type: EventConnectError, ID: listener, Status: -1, cause: err}
		case errors.As(err, &gone) || errors.As(err, &removed): // the request no longer exists
			id.Close()
			return nil
		default:
			ch.refuse(id, RefusedNoDevice, err)
			return nil
		}
	}
	listener.deliver(ev)
	return ev
}
