// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"context"
	"encoding/binary"
	"time"

	"purerdma/abi"
)

// Event is an event as the kernel reports it.
type Event struct {
	// Type is one of abi.RDMA_CM_EVENT_*, or a number without a name in this package.
	Type uint32
	// UID is the number that was passed to CreateID or Accept. A CONNECT_REQUEST has the UID of the
	// listener, a MULTICAST event the UID of the membership.
	UID uint64
	// ID is the kernel's number of the ID. A CONNECT_REQUEST has the number of the new ID.
	ID uint32
	// Status is 0, a negative errno or a status of the transport.
	Status int32
	// ECE holds the peer's options of enhanced connection establishment.
	ECE abi.UcmECE

	exchange[abi.UcmGetEvent, abi.UcmEventResp]
}

// Conn returns the parameters of an event on a connected ID, which are a part of the event.
func (e *Event) Conn() *abi.UcmConnParam { return e.resp.Conn() }

// UD returns the parameters of an event on a datagram ID.
func (e *Event) UD() abi.UcmUDParam { return e.resp.UD() }

// Arg returns the argument of WriteCMEvent, for an event that it sent.
func (e *Event) Arg() uint64 {
	arg := e.resp.Arg32()
	return binary.NativeEndian.Uint64(abi.Bytes(&arg))
}

// GetEvent fetches the oldest event, waiting for one if there is none
// (RDMA_USER_CM_CMD_GET_EVENT). It decodes and does nothing else. Concurrent
// calls take turns.
func (f *File) GetEvent(ctx context.Context) (*Event, error) {
	e := new(Event)
	if err := f.ReadEvent(ctx, e); err != nil {
		return nil, err
	}
	return e, nil
}

// ReadEvent is GetEvent into memory of the caller. It overwrites all old content.
func (f *File) ReadEvent(ctx context.Context, e *Event) error {
	e.prepare(abi.RDMA_USER_CM_CMD_GET_EVENT)
	e.cmd.Response = abi.NewPointer(&e.resp)
	start := f.begin()
	err := f.dev.WriteWhenReadable(ctx, abi.Bytes(&e.frame))
	if f.tracer != nil {
		f.tracer.Command("rdma_cm", CommandName(abi.RDMA_USER_CM_CMD_GET_EVENT), &e.cmd, &e.resp, err, time.Since(start))
	}
	e.decode()
	if err != nil {
		return commandError(abi.RDMA_USER_CM_CMD_GET_EVENT, 0, err)
	}
	return nil
}

// decode fills the fields from the bytes of the kernel.
func (e *Event) decode() {
	e.Type, e.UID, e.ID, e.Status, e.ECE = e.resp.Event, e.resp.UID, e.resp.ID, int32(e.resp.Status), e.resp.ECE
}
