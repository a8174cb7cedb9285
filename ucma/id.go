// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"sync"

	"purerdma/abi"
)

// CreateID makes an ID (RDMA_USER_CM_CMD_CREATE_ID). uid is repeated in every event of the ID. It
// must not be 0, because the kernel drops the events of an ID whose uid is 0. qpType is used only
// for RDMA_PS_IB. The ID belongs to the network namespace of the calling thread.
func (f *File) CreateID(uid uint64, portSpace uint16, qpType uint8) (id uint32, err error) {
	resp := new(abi.UcmCreateIDResp)
	err = runCommandResp(f, abi.RDMA_USER_CM_CMD_CREATE_ID, 0, abi.UcmCreateID{
		UID:      uid,
		Response: abi.NewPointer(resp),
		PS:       portSpace,
		QPType:   qpType,
	}, resp)
	return resp.ID, err
}

// DestroyID destroys an ID in any state (RDMA_USER_CM_CMD_DESTROY_ID). It returns the number of the
// ID's events that have been fetched over its whole life. The kernel drops the unfetched ones. On
// iWARP it may block for seconds while a connect has no reply.
func (f *File) DestroyID(id uint32) (eventsReported uint32, err error) {
	x := destructions.Get().(*destruction)
	defer destructions.Put(x)
	x.cmd = abi.UcmDestroyID{Response: abi.NewPointer(&x.resp), ID: id}
	err = x.run(f, abi.RDMA_USER_CM_CMD_DESTROY_ID, id)
	return x.resp.EventsReported, err
}

type destruction struct {
	exchange[abi.UcmDestroyID, abi.UcmDestroyIDResp]
}

var destructions = sync.Pool{New: func() any { return new(destruction) }}

// MigrateID moves an ID and its unfetched events from the file from to f
// (RDMA_USER_CM_CMD_MIGRATE_ID). It returns the number of the ID's events that have been fetched so
// far.
//
// The kernel does not wake goroutines that already wait on f, so migrate first, then wait. The new
// IDs inside a listener's unfetched connect requests stay with from.
func (f *File) MigrateID(id uint32, from *File) (eventsReported uint32, err error) {
	resp := new(abi.UcmMigrateResp)
	var sendErr error
	err = from.dev.Control(func(fd uintptr) {
		sendErr = runCommandResp(f, abi.RDMA_USER_CM_CMD_MIGRATE_ID, id, abi.UcmMigrateID{
			Response: abi.NewPointer(resp),
			ID:       id,
			FD:       uint32(fd),
		}, resp)
	})
	if err != nil {
		return 0, &OpError{Op: CommandName(abi.RDMA_USER_CM_CMD_MIGRATE_ID), ID: id, Err: err}
	}
	return resp.EventsReported, sendErr
}
