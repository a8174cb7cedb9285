// SPDX-License-Identifier: Apache-2.0

package cmtest

import (
	"context"
	"net"
	"slices"

	"purerdma/abi"
	"purerdma/internal/cdev"
	"purerdma/ucma"
)

// event is an event that has not been fetched.
type event struct {
	resp  abi.UcmEventResp
	id    *id    // the ID of the event, or the listener if the event is a connect request
	child *id    // the new ID of a connect request
	group *group // the group of a membership's event
}

// file is an open /dev/infiniband/rdma_cm.
type file struct {
	k        *Kernel
	fd       int
	events   []event
	readable chan struct{}
	woken    chan struct{}
	closed   chan struct{}
	turn     chan struct{} // holds a token while a goroutine fetches an event
}

var _ ucma.Device = (*file)(nil)

// OpenCM opens the connection manager for package cm.
func (k *Kernel) OpenCM() (ucma.Device, error) {
	if err := k.ask(Command{Device: connectionManager, Name: "open"}); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	fd := 3
	for k.files[fd] != nil {
		fd++
	}
	f := &file{
		k: k, fd: fd, readable: make(chan struct{}, 1), woken: make(chan struct{}, 1), closed: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	k.files[fd] = f
	return f, nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Wake implements ucma.Device.
func (f *file) Wake() { signal(f.woken) }

// Control implements ucma.Device.
func (f *file) Control(fn func(fd uintptr)) error {
	if f.isClosed() {
		return net.ErrClosed
	}
	fn(uintptr(f.fd))
	return nil
}

func (f *file) isClosed() bool {
	select {
	case <-f.closed:
		return true
	default:
		return false
	}
}

// Close destroys the file's remaining IDs.
func (f *file) Close() error {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if f.isClosed() {
		return nil
	}
	for _, id := range f.k.sorted() {
		if id.file == f && !id.gone {
			f.k.destroy(id)
		}
	}
	delete(f.k.files, f.fd)
	close(f.closed)
	return nil
}

// WriteWhenReadable implements GET_EVENT.
func (f *file) WriteWhenReadable(ctx context.Context, b []byte) error {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return cdev.ContextError(ctx)
	}
	defer func() { <-f.turn }()
	for {
		switch {
		case f.isClosed():
			return net.ErrClosed
		case f.some():
			if err := f.k.ask(Command{Device: connectionManager, Name: ucma.CommandName(abi.RDMA_USER_CM_CMD_GET_EVENT)}); err != nil {
				return err
			}
			if f.fetch(b) {
				return nil
			}
			continue // the ID was closed, or has moved to another file
		case ctx.Err() != nil:
			return cdev.ContextError(ctx)
		}
		select {
		case <-f.readable:
		case <-f.woken:
		case <-f.closed:
		case <-ctx.Done():
		}
	}
}

// some reports whether there is an event.
func (f *file) some() bool {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	return len(f.events) > 0
}

// fetch answers GET_EVENT with the oldest event.
func (f *file) fetch(b []byte) bool {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if len(f.events) == 0 {
		return false
	}
	ev := f.events[0]
	f.events = slices.Delete(f.events, 0, 1)
	ev.id.reported++
	if ev.child != nil {
		ev.id.pending--
	}
	if ev.group != nil {
		ev.group.reported++
	}
	answer(input[abi.UcmGetEvent](b).Response, &ev.resp)
	return true
}

// drop removes events from the queue and returns them. The function which selects them.
func (f *file) drop(which func(event) bool) (dropped []event) {
	f.events = slices.DeleteFunc(f.events, func(ev event) bool {
		if which(ev) {
			dropped = append(dropped, ev)
			return true
		}
		return false
	})
	return dropped
}

// migrate implements MIGRATE_ID. As in Linux, the new ID of a pending connect request stays on
// the old file, and goroutines that wait on the new file are not woken.
func (k *Kernel) migrate(id *id, to *file) {
	to.events = append(to.events, id.file.drop(func(ev event) bool { return ev.id == id })...)
	id.file = to
}

// tell queues an event for an ID. An ID that has not been accepted gets no events.
func (k *Kernel) tell(id *id, typ uint32, status int, param ...[]byte) {
	if id.gone || id.uid == 0 {
		return
	}
	ev := event{resp: abi.UcmEventResp{UID: id.uid, ID: id.num, Event: typ, Status: uint32(status)}, id: id}
	for _, p := range param {
		copy(ev.resp.Param[:], p)
	}
	k.queue(ev)
}

func (k *Kernel) queue(ev event) {
	f := ev.id.file
	f.events = append(f.events, ev)
	signal(f.readable)
}

// input returns a command's struct, which follows the header.
func input[T any](b []byte) *T { return abi.View[T](b[abi.Size[abi.UcmCmdHdr]():]) }

// answer writes a command's response.
func answer[T any](to abi.Pointer, resp *T) { copy(to.Slice(abi.Size[T]()), abi.Bytes(resp)) }
