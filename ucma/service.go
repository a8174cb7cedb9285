// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"errors"
	"fmt"
	"syscall"

	"purerdma/abi"
)

// ResolveIBService looks a service up by its ID or name at the subnet
// administrator (RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE). The outcome is an
// ADDRINFO_RESOLVED or ADDRINFO_ERROR event. A kernel that does not know the
// command gives errors.ErrUnsupported.
func (f *File) ResolveIBService(id uint32, service abi.UcmIBService) error {
	return sendNew(f, abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE, id, func(id uint32) abi.UcmResolveIBService {
		return abi.UcmResolveIBService{ID: id, IBS: service}
	})
}

// WriteCMEvent puts an event of the caller's own into the queue of an ID
// (RDMA_USER_CM_CMD_WRITE_CM_EVENT): event is RDMA_CM_EVENT_USER or
// RDMA_CM_EVENT_INTERNAL. A kernel that does not know the command gives
// errors.ErrUnsupported.
func (f *File) WriteCMEvent(id, event uint32, status int32, arg uint64) error {
	return sendNew(f, abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT, id, func(id uint32) abi.UcmWriteCMEvent {
		cmd := abi.UcmWriteCMEvent{ID: id, Event: event, Status: uint32(status)}
		*cmd.Arg() = arg
		return cmd
	})
}

// noID is the number of no ID.
const noID = 1<<32 - 1

// sendNew is send for a command that older kernels lack. They answer EINVAL, as
// newer ones do to an ID in the wrong state; but those answer ENOENT to an ID that
// is not there.
func sendNew[C any](f *File, code, id uint32, cmd func(id uint32) C) error {
	err := send(f, code, id, cmd(id))
	if errors.Is(err, syscall.EINVAL) && errors.Is(send(f, code, noID, cmd(noID)), syscall.EINVAL) {
		return &OpError{Op: commandName(code), ID: id, Err: fmt.Errorf("this kernel does not know the command, Linux 7.2 does: %w", errors.ErrUnsupported)}
	}
	return err
}
