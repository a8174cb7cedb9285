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
	return sendNew(f, abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE, id,
		abi.UcmResolveIBService{ID: id, IBS: service},
		abi.UcmResolveIBService{ID: noID, IBS: service})
}

// WriteCMEvent puts an event of the caller's own into the queue of an ID
// (RDMA_USER_CM_CMD_WRITE_CM_EVENT): event is RDMA_CM_EVENT_USER or
// RDMA_CM_EVENT_INTERNAL. A kernel that does not know the command gives
// errors.ErrUnsupported.
func (f *File) WriteCMEvent(id, event uint32, status int32, arg uint64) error {
	cmd := abi.UcmWriteCMEvent{ID: id, Event: event, Status: uint32(status)}
	*cmd.Arg() = arg
	// The kernel looks at the event before the ID: the probe has a good one.
	return sendNew(f, abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT, id, cmd,
		abi.UcmWriteCMEvent{ID: noID, Event: abi.RDMA_CM_EVENT_USER})
}

// noID is the number of no ID.
const noID = 1<<32 - 1

// sendNew is send for a command that older kernels lack. They answer EINVAL, as
// newer ones do to an ID in the wrong state; but those answer ENOENT to probe, whose
// ID is not there.
func sendNew[C any](f *File, code, id uint32, cmd, probe C) error {
	err := send(f, code, id, cmd)
	if errors.Is(err, syscall.EINVAL) && errors.Is(send(f, code, noID, probe), syscall.EINVAL) {
		return &OpError{Op: CommandName(code), ID: id, Err: fmt.Errorf("this kernel does not know the command, Linux 7.3 does: %w", errors.ErrUnsupported)}
	}
	return err
}
