// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/cdev"
	"purerdma/ucma"
	"purerdma/verbs"
)

// fakeKernel is /dev/infiniband/rdma_cm for tests. It numbers IDs, stores their uids, refuses
// commands on unknown IDs, and hands out the events that a test queues.
type fakeKernel struct {
	accepts bool // every CONNECT leads to ESTABLISHED
	device  bool // every ID is bound to the first device

	mu     sync.Mutex
	uids   map[uint32]uint64 // of the living IDs
	lastID uint32
	fail   map[uint32]error // by command
	events chan abi.UcmEventResp
	wake   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newFakeKernel() *fakeKernel {
	return &fakeKernel{
		uids:   map[uint32]uint64{},
		fail:   map[uint32]error{},
		events: make(chan abi.UcmEventResp, 100),
		wake:   make(chan struct{}, 1),
		closed: make(chan struct{}),
	}
}

// newFakeChannel returns an EventChannel on a fake kernel. Its host has no devices.
func newFakeChannel(t *testing.T) (*EventChannel, *fakeKernel) {
	t.Helper()
	k := newFakeKernel()
	ch := newEventChannel(ucma.New(k), &verbs.Host{})
	t.Cleanup(func() { ch.Close() })
	return ch, k
}

// queue queues an event for an ID by its number in the kernel.
func (k *fakeKernel) queue(id uint32, typ EventType, status int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events <- abi.UcmEventResp{UID: k.uids[id], ID: id, Event: uint32(typ), Status: uint32(status)}
}

func (k *fakeKernel) WriteWhenReadable(ctx context.Context, b []byte) error {
	for {
		if err := k.wait(ctx, b); err != errWoken {
			return err
		}
	}
}

var errWoken = errors.New("woken")

// wait is WriteWhenReadable, but returns errWoken after Wake.
func (k *fakeKernel) wait(ctx context.Context, b []byte) error {
	select {
	case ev := <-k.events:
		k.mu.Lock()
		err := k.fail[abi.RDMA_USER_CM_CMD_GET_EVENT]
		k.mu.Unlock()
		if err != nil {
			return err
		}
		*(*abi.UcmEventResp)(pointerAt(b, 8)) = ev
		return nil
	case <-k.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return cdev.ContextError(ctx)
	case <-k.wake:
		return errWoken
	}
}

func (k *fakeKernel) Wake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// pointerAt reads a response pointer from a frame.
func pointerAt(frame []byte, off int) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&frame[off]))
}

// idOffset holds the offset of the ID in a command, after the header.
var idOffset = map[uint32]int{
	abi.RDMA_USER_CM_CMD_DESTROY_ID: 8, abi.RDMA_USER_CM_CMD_CONNECT: 272,
	abi.RDMA_USER_CM_CMD_ACCEPT: 280, abi.RDMA_USER_CM_CMD_INIT_QP_ATTR: 8,
	abi.RDMA_USER_CM_CMD_SET_OPTION: 8, abi.RDMA_USER_CM_CMD_MIGRATE_ID: 8,
	abi.RDMA_USER_CM_CMD_QUERY: 8, abi.RDMA_USER_CM_CMD_JOIN_MCAST: 16,
	abi.RDMA_USER_CM_CMD_LEAVE_MCAST: 8,
}

func (k *fakeKernel) Write(b []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	cmd := binary.NativeEndian.Uint32(b)
	if err := k.fail[cmd]; err != nil {
		return err
	}
	if cmd == abi.RDMA_USER_CM_CMD_CREATE_ID {
		k.lastID++
		k.uids[k.lastID] = binary.NativeEndian.Uint64(b[8:])
		*(*uint32)(pointerAt(b, 16)) = k.lastID
		return nil
	}
	id := binary.NativeEndian.Uint32(b[8+idOffset[cmd]:])
	if cmd == abi.RDMA_USER_CM_CMD_LEAVE_MCAST {
		return nil // memberships have separate numbers
	}
	if _, ok := k.uids[id]; !ok {
		return syscall.ENOENT
	}
	switch cmd {
	case abi.RDMA_USER_CM_CMD_QUERY:
		if k.device && binary.NativeEndian.Uint32(b[20:]) == abi.RDMA_USER_CM_QUERY_ADDR {
			(*abi.UcmQueryAddrResp)(pointerAt(b, 8)).PortNum = 1
		}
	case abi.RDMA_USER_CM_CMD_DESTROY_ID:
		delete(k.uids, id)
	case abi.RDMA_USER_CM_CMD_CONNECT:
		if k.accepts {
			k.events <- abi.UcmEventResp{UID: k.uids[id], ID: id, Event: abi.RDMA_CM_EVENT_ESTABLISHED}
		}
	case abi.RDMA_USER_CM_CMD_ACCEPT:
		k.uids[id] = binary.NativeEndian.Uint64(b[8:])
	}
	return nil
}

func (k *fakeKernel) Control(fn func(fd uintptr)) error { fn(3); return nil }
func (k *fakeKernel) Close() error                      { k.once.Do(func() { close(k.closed) }); return nil }

func (k *fakeKernel) living() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.uids)
}
