// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"encoding/binary"
	"net"
	"slices"

	"purerdma/abi"
)

// modelFile is an open file of a modelKernel. It implements ucma.Device.
type modelFile struct {
	k        *modelKernel
	fd       uintptr
	readable chan struct{}
	woken    chan struct{}
	closed   chan struct{}

	events []modelEvent
	handed []modelEvent // fetched since the last check
}

func (k *modelKernel) open() *modelFile {
	f := &modelFile{k: k, readable: make(chan struct{}, 1), woken: make(chan struct{}, 1), closed: make(chan struct{})}
	k.mu.Lock()
	defer k.mu.Unlock()
	f.fd = uintptr(len(k.files))
	k.files = append(k.files, f)
	return f
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (f *modelFile) queue(ev modelEvent) {
	f.events = append(f.events, ev)
	signal(f.readable)
}

// drop removes events from the queue and returns them. The function which selects them.
func (f *modelFile) drop(which func(modelEvent) bool) (dropped []modelEvent) {
	f.events = slices.DeleteFunc(f.events, func(ev modelEvent) bool {
		if which(ev) {
			dropped = append(dropped, ev)
			return true
		}
		return false
	})
	return dropped
}

// migrate moves an ID and its events to a file. As in Linux, it wakes no goroutine that waits
// on the file.
func (k *modelKernel) migrate(id *modelID, to *modelFile) {
	events := id.file.drop(func(ev modelEvent) bool { return ev.move.id == id })
	to.events = append(to.events, events...)
	id.file = to
}

func (f *modelFile) Write(b []byte) error {
	cmd := binary.NativeEndian.Uint32(b)
	f.k.pause(cmd)
	err := f.k.write(f, cmd, b)
	f.k.pause(cmd)
	return err
}

// pause runs other actions during a command. MIGRATE_ID and DESTROY_ID exclude all other
// commands of their ID.
func (k *modelKernel) pause(cmd uint32) {
	if k.during != nil && cmd != abi.RDMA_USER_CM_CMD_MIGRATE_ID && cmd != abi.RDMA_USER_CM_CMD_DESTROY_ID {
		k.during()
	}
}

func (f *modelFile) WriteWhenReadable(ctx context.Context, b []byte) error {
	for {
		ev, surprise, ok := f.fetch()
		if ok {
			*(*abi.UcmEventResp)(pointerAt(b, 8)) = ev.resp
			if surprise != nil {
				surprise(ev)
			}
			return nil
		}
		select {
		case <-f.readable:
		case <-f.woken:
		case <-f.closed:
			return net.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fetch removes the oldest event.
func (f *modelFile) fetch() (ev modelEvent, surprise func(modelEvent), ok bool) {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if len(f.events) == 0 {
		return ev, nil, false
	}
	ev, f.events = f.events[0], f.events[1:]
	f.handed = append(f.handed, ev)
	surprise, f.k.surprise = f.k.surprise, nil
	return ev, surprise, true
}

func (f *modelFile) Wake()                             { signal(f.woken) }
func (f *modelFile) Control(fn func(fd uintptr)) error { fn(f.fd); return nil }

// Close destroys the remaining IDs of the file.
func (f *modelFile) Close() error {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	for _, id := range f.k.all() {
		if id.file == f && !id.gone {
			f.k.destroy(id)
		}
	}
	close(f.closed)
	return nil
}
