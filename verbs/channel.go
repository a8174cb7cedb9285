// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"purerdma/internal/cdev"
	"purerdma/internal/leak"
	"purerdma/uverbs"
)

// CompChannel is a completion event channel (ibv_create_comp_channel(3)). Through its one file
// descriptor, many CQs wake their waiters.
type CompChannel struct {
	dev  *deviceContext
	ch   *uverbs.CompChannel
	refs refs
	leak *leak.Entry

	// turn holds one token while a goroutine reads the channel. The reader is a caller of Next or a
	// waiter of one of the CQs, which wakes the waiters of the others.
	turn   chan struct{}
	reader reader // guarded by turn
	file   eventFile
	conn   syscall.RawConn // of file
	hook   cdev.Hook       // of Next
	// interrupt is file.Interrupt, made once.
	interrupt func()
	// arms is an upper bound of the events that the channel can hold or get without another arm.
	// Each arm causes at most one event.
	arms atomic.Int64

	mu    sync.Mutex
	added map[*CQ]struct{} // armed, and got completions without an event since the last Next
}

// eventFile is a *uverbs.CompChannel, or the file of a test.
type eventFile interface {
	ReadDone(err error, read func(fd uintptr) bool) error
	Resume()
}

// CreateCompChannel makes a completion channel. The caller closes it.
func (d *Device) CreateCompChannel() (*CompChannel, error) {
	if err := d.hold(); err != nil {
		return nil, d.opError("create completion channel on", err)
	}
	k, err := d.file.CreateCompChannel()
	if err != nil {
		d.unref()
		return nil, d.opError("create completion channel on", err)
	}
	conn, err := k.SyscallConn()
	if err != nil {
		return nil, d.opError("create completion channel on", errors.Join(err, k.Close(), d.unref()))
	}
	ch := &CompChannel{
		dev:       d.deviceContext,
		ch:        k,
		leak:      leak.Track("completion channel", d.info.Name),
		turn:      make(chan struct{}, 1),
		file:      k,
		conn:      conn,
		interrupt: k.Interrupt,
		added:     make(map[*CQ]struct{}),
	}
	ch.reader.read = ch.read
	return ch, nil
}

// Device returns the device of the channel, which need not be closed.
func (ch *CompChannel) Device() *Device { return ch.dev.self }

// Close closes the channel, at once or with the Close of the last CQ on it, which then returns the
// error of both. New CQs fail with net.ErrClosed. Close may be called more than once. After an
// error it tries again.
func (ch *CompChannel) Close() error {
	return ch.dev.opError("close completion channel of", ch.refs.close(ch))
}

func (ch *CompChannel) destroy() error { return ch.ch.Close() }

func (ch *CompChannel) release() error {
	ch.hook.Close()
	ch.leak.Done()
	return ch.dev.unref()
}

// Next waits for the event of any CQ that was armed with CQ.Arm and returns that CQ
// (ibv_get_cq_event(3)). There is nothing to acknowledge. It is for a goroutine that serves many
// CQs: arm them all, poll them all, then Next, Arm and Poll in turn. Do not mix it with CQ.Wait on
// the same channel, because each would consume events of the other.
func (ch *CompChannel) Next(ctx context.Context) (*CQ, error) {
	cq, err := ch.next(ctx)
	return cq, ch.dev.opError("wait for completion event of", err)
}

func (ch *CompChannel) next(ctx context.Context) (*CQ, error) {
	cdev.NeedContext(ctx)
	select {
	case ch.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, cdev.ContextError(ctx)
	}
	defer ch.endRead()
	r := &ch.reader
	ch.hook.Set(ctx, ch.interrupt)
	for {
		if ctx.Err() != nil {
			return nil, cdev.ContextError(ctx)
		}
		// A completion that is added from now on interrupts the Read below.
		if cq := ch.takeAdded(); cq != nil {
			return cq, nil
		}
		err := ch.file.ReadDone(ch.conn.Read(r.read), r.read)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			ch.file.Resume()
		case err != nil:
			return nil, ch.dev.eventError(err)
		case errors.Is(r.err, io.ErrUnexpectedEOF):
			ch.eventLost()
		case r.err != nil:
			return nil, ch.dev.eventError(r.err)
		default:
			if cq := ch.eventOf(r.event); cq != nil {
				return cq, nil
			}
		}
	}
}

// takeAdded returns a CQ that was armed and got a completion without an event, nil
// if there is none.
func (ch *CompChannel) takeAdded() *CQ {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for cq := range ch.added {
		delete(ch.added, cq)
		return cq
	}
	return nil
}
