// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"errors"
	"fmt"
	"syscall"

	"purerdma/abi"
)

// ResolveIBService looks a service up by its ID or name at the subnet administrator
// (RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE). The outcome is an ADDRINFO_RESOLVED or ADDRINFO_ERROR
// event. It returns errors.ErrUnsupported if the kernel lacks the command.
func (f *File) ResolveIBService(id uint32, service abi.UcmIBService) error {
	return sendNew(f, abi.RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE, id,
		abi.UcmResolveIBService{ID: id, IBS: service},
		abi.UcmResolveIBService{ID: noID, IBS: service})
}

// WriteCMEvent puts an event of the caller into the queue of an ID
// (RDMA_USER_CM_CMD_WRITE_CM_EVENT). event is RDMA_CM_EVENT_USER or RDMA_CM_EVENT_INTERNAL. It
// returns errors.ErrUnsupported if the kernel lacks the command.
func (f *File) WriteCMEvent(id, event uint32, status int32, arg uint64) error {
	cmd := abi.UcmWriteCMEvent{ID: id, Event: event, Status: uint32(status)}
	*cmd.Arg() = arg
	// The kernel checks the event before the ID, so the probe has a valid event.
	return sendNew(f, abi.RDMA_USER_CM_CMD_WRITE_CM_EVENT, id, cmd,
		abi.UcmWriteCMEvent{ID: noID, Event: abi.RDMA_CM_EVENT_USER})
}

// noID is a number that no ID has.
const noID = 1<<32 - 1

// sendNew is send for a command that older kernels lack. They return EINVAL. Newer kernels return
// EINVAL for an ID in the wrong state. For probe, whose ID does not exist, newer kernels return
// ENOENT.
func sendNew[C any](f *File, code, id uint32, cmd, probe C) error {
	err := runCommand(f, code, id, cmd)
	if errors.Is(err, syscall.EINVAL) && errors.Is(runCommand(f, code, noID, probe), syscall.EINVAL) {
		return &OpError{Op: CommandName(code), ID: id, Err: fmt.Errorf("this kernel lacks the command, which is new in Linux 7.3: %w", errors.ErrUnsupported)}
	}
	return err
}
