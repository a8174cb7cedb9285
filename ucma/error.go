// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"purerdma/abi"
)

// OpError reports which command failed on which ID, and the cause. It unwraps to the kernel's errno
// (a syscall.Errno), to net.ErrClosed after Close, or to the context's error.
type OpError struct {
	Op  string // the command without its prefix, as "RESOLVE_ADDR"
	ID  uint32 // the kernel's number of the ID; 0 if the command has none
	Err error
}

func (e *OpError) Error() string {
	if e.ID == 0 {
		return fmt.Sprintf("rdma_cm %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("rdma_cm %s id %d: %v", e.Op, e.ID, e.Err)
}

func (e *OpError) Unwrap() error { return e.Err }

// openError explains why the device could not be opened.
func openError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w (is the kernel module rdma_ucm loaded, and is the device present in this container? run rdmadoctor)", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%w (RLIMIT_NOFILE: a connection takes two descriptors)", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w (the device's mode or the container's device rules forbid it: run rdmadoctor)", err)
	}
	return err
}

// notSupp is ENOTSUPP, which is internal to the kernel. The connection manager passes it through
// from some drivers.
const notSupp = syscall.Errno(524)

// commandError explains an errno that has a special meaning here.
func commandError(code, id uint32, err error) error {
	if errors.Is(err, syscall.EACCES) {
		// For every command, the kernel compares the credentials of the writer with the opener's.
		why := "the file was opened with other credentials: before a fork, an exec or a setuid, or by the process that passed it on"
		if code == abi.RDMA_USER_CM_CMD_BIND || code == abi.RDMA_USER_CM_CMD_BIND_IP {
			why = "a port below 1024 needs CAP_NET_BIND_SERVICE in the initial user namespace; or " + why
		}
		err = fmt.Errorf("%w (%s)", err, why)
	}
	if errors.Is(err, notSupp) {
		err = fmt.Errorf("%w (ENOTSUPP: %w of the device)", err, errors.ErrUnsupported)
	}
	return &OpError{Op: CommandName(code), ID: id, Err: err}
}

// VersionError reports that the kernel's connection manager has another version of its ABI.
type VersionError struct {
	Kernel, Library int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the kernel's rdma_cm has ABI version %d, this library supports %d", e.Kernel, e.Library)
}

// Unwrap returns errors.ErrUnsupported.
func (e *VersionError) Unwrap() error { return errors.ErrUnsupported }
