// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/provider"
	"purerdma/uverbs"
)

// ErrNoDevice reports that there is no RDMA device of that name, index or GUID.
var ErrNoDevice = errors.New("no such RDMA device")

// ErrOverrun reports that a CQ is in error. The device announces it by AsyncCQErr. The usual cause
// is that more completions came than fit. The kernel does not pass on the cause, and a ConnectX has
// a second one, which is that it may not write to the CQ's memory. Completions are lost, and it is
// unknown which requests have completed. The program must close the QPs and the CQ.
var ErrOverrun = errors.New("the completion queue is in error (usually an overrun): completions are lost")

// OpError is the error of all calls of this package.
type OpError struct {
	Op     string // failed operation, as "create QP"
	Object string // on what, as "rxe0" or "QP 0x11 of rxe0"
	Err    error  // cause. For a refused command, the errno
}

// Error returns "op object: reason".
func (e *OpError) Error() string { return e.Op + " " + e.Object + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }

// DeviceRemovedError reports that a device was removed while it was open, or that it failed. All
// objects of that device are unusable. Closing them succeeds. A device that comes back under the
// same name must be opened again.
type DeviceRemovedError struct {
	Device string
	// Fatal reports that AsyncDeviceFatal was read before the removal was detected. After a fatal
	// error, the device works again once its driver has reset it, which takes some drivers minutes.
	// The kernel also sends the event when a driver removes its device
	// (uverbs_async_event_destroy_uobj), so Fatal does not distinguish the two.
	Fatal bool
}

// Error names the device and describes the failure.
func (e *DeviceRemovedError) Error() string {
	if e.Fatal {
		return "RDMA device " + e.Device + " reported a fatal error: it has failed or was removed"
	}
	return "RDMA device " + e.Device + " was removed"
}

// NodeError reports that the character device of an RDMA device could not be opened. The usual
// cause is a container that does not have the device node.
type NodeError struct {
	Device string
	Path   string // "" if the kernel made none
	Err    error  // wraps fs.ErrNotExist, fs.ErrPermission, ...
}

// Error names the device and the path, and adds a hint.
func (e *NodeError) Error() string {
	switch {
	case e.Path == "":
		return "RDMA device " + e.Device + " has no verbs character device: is the module ib_uverbs loaded?"
	case errors.Is(e.Err, fs.ErrNotExist):
		return "RDMA device " + e.Device + ": no device node " + e.Path + ": is it missing in this container?"
	case errors.Is(e.Err, fs.ErrPermission):
		return "RDMA device " + e.Device + ": no permission to read and write " + e.Path
	}
	return "RDMA device " + e.Device + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *NodeError) Unwrap() error { return e.Err }

// MinKernel is the oldest Linux whose verbs interface has all commands that every
// program needs. Kernels of distributions may have a lower number and these commands. The tests on
// this kernel use rxe and mlx5 (docs/reference/support.md).
const MinKernel = "5.10"

// OldKernelError reports that the kernel lacks a command that every device needs. It is an
// errors.ErrUnsupported.
type OldKernelError struct {
	Device string
	Err    error // wraps a *uverbs.UnsupportedError that names the command
}

// Error names the device, the kernel that is needed, and the command.
func (e *OldKernelError) Error() string {
	return "RDMA device " + e.Device + ": the kernel is too old, Linux " + MinKernel + " or newer is needed: " + e.Err.Error()
}

// Unwrap returns Err.
func (e *OldKernelError) Unwrap() error { return e.Err }

// kernelError returns an *OldKernelError for an error that reports an unsupported command of the
// verbs interface, and other errors unchanged.
func kernelError(device string, err error) error {
	if e, ok := errors.AsType[*uverbs.UnsupportedError](err); ok && (e.Err == syscall.EPROTONOSUPPORT || e.Err == syscall.ENOTTY) {
		return &OldKernelError{Device: device, Err: err}
	}
	return err
}

// NoProviderError reports that no Driver of the Host supports the kernel driver of a device, or the
// version of its ABI. It is an errors.ErrUnsupported.
type NoProviderError struct {
	Device     string
	Driver     abi.DriverID
	ABIVersion uint32
	Min, Max   uint32 // versions of the Driver, if there is one
}

// Error names the kernel driver and the versions.
func (e *NoProviderError) Error() string {
	if e.Max != 0 {
		return fmt.Sprintf("RDMA device %s: driver %v has ABI version %d, the Go provider supports %d to %d",
			e.Device, e.Driver, e.ABIVersion, e.Min, e.Max)
	}
	return fmt.Sprintf("RDMA device %s: no Go provider for driver %v", e.Device, e.Driver)
}

// Unwrap returns errors.ErrUnsupported.
func (e *NoProviderError) Unwrap() error { return errors.ErrUnsupported }

// opError wraps the error of an operation on an object of s. If the file is closed because of a
// removal, it returns a *DeviceRemovedError. It adds the limit if one was hit. A caller that gets a
// DeviceRemovedError may reuse its memory. So opError first waits until the file is really closed,
// and with it the last QP that could write there.
func (s *deviceContext) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return s.errorOf(op, s.info.Name, err)
}

// opError wraps the error of an operation on the QP itself, and names the QP.
func (q *QP) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return q.pd.dev.errorOf(op, q.String(), err)
}

// errorOf is opError for an error that is not nil and a given object name. It may end the context, but
// does not wait for the readers of completion channels. One of them may be the caller, in a function that gets
// messages.
func (s *deviceContext) errorOf(op, object string, err error) error {
	if errors.Is(err, syscall.EIO) && s.disassociated() {
		s.remove() // no event file has reported it yet
		err = net.ErrClosed
	}
	if s.isRemoved() && errors.Is(err, net.ErrClosed) {
		s.file.End()
		err = &DeviceRemovedError{Device: s.info.Name, Fatal: s.fatal.Load()}
	}
	return &OpError{Op: op, Object: object, Err: fileLimitError(err)}
}

// fullError is ErrFull with the size of the queue. It formats its text only on demand, because a
// full queue is back-pressure, which a program may meet often.
type fullError struct {
	field string // of QPCap or SRQAttr
	size  int
}

func (e *fullError) Error() string {
	return ErrFull.Error() + " (" + e.field + " is " + strconv.Itoa(e.size) + ")"
}

// Unwrap returns ErrFull.
func (e *fullError) Unwrap() error { return ErrFull }

// sized adds the size of the queue to ErrFull.
func sized(err error, field string, size int) error {
	if err == ErrFull {
		return &fullError{field, size}
	}
	return err
}

// fileLimitError adds the limit to the error of a full descriptor table.
func fileLimitError(err error) error {
	if !errors.Is(err, syscall.EMFILE) {
		return err
	}
	return fmt.Errorf("%w (RLIMIT_NOFILE is %d)", err, mem.FileLimit())
}

// memoryError adds the size and the rights of the failed registration.
func memoryError(size int, access Access, err error) error {
	return fmt.Errorf("%d bytes, Access %v: %w", size, access, err)
}

// queueError explains the error of creating or resizing a queue. The queue's memory counts against
// the limit only if the driver registers it. A removal replaces rings by zeros, which the provider
// may have read. After a removal, every error therefore becomes net.ErrClosed.
func (s *deviceContext) queueError(err error) error {
	if err != nil && s.isRemoved() {
		return net.ErrClosed
	}
	if _, pins := s.ctx.(provider.QueuePinner); pins && errors.Is(err, syscall.ENOMEM) {
		return memlockError(err)
	}
	return err
}

// memlockError adds the limit on locked memory, and how to raise it, to an error that the limit may
// have caused.
func memlockError(err error) error {
	if !errors.Is(err, syscall.ENOMEM) && !errors.Is(err, syscall.EPERM) {
		return err
	}
	limit, ok := mem.LockLimit()
	if !ok {
		return err
	}
	used := ""
	if n, ok := mem.Pinned(); ok {
		used = fmt.Sprintf(", this process has %d registered", n)
	}
	return fmt.Errorf("%w (RLIMIT_MEMLOCK is %d bytes%s: run prlimit --pid %d --memlock=unlimited as root, or grant CAP_IPC_LOCK)",
		err, limit, used, os.Getpid())
}
