// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"errors"
	"fmt"
	"syscall"
)

// UnsupportedError reports that the kernel, or the driver of the device, lacks a method, a command
// or an attribute. It is an errors.ErrUnsupported, and the errno.
type UnsupportedError struct {
	Request string // as "UVERBS_METHOD_REG_MR"
	Since   string // the first Linux that has it, as "6.17", or "" if it is not known
	Err     error  // the errno
}

// Error names the method and the version of Linux that introduced it.
func (e *UnsupportedError) Error() string {
	since := ""
	if e.Since != "" {
		since = " (needs Linux " + e.Since + ", and a driver that has it)"
	}
	errno := e.Err.Error()
	if e.Err == notSupp {
		errno += " (ENOTSUPP)" // Go has no name for it
	}
	return fmt.Sprintf("%s is not supported%s: %s", e.Request, since, errno)
}

// Unwrap returns errors.ErrUnsupported and the errno.
func (e *UnsupportedError) Unwrap() []error { return []error{errors.ErrUnsupported, e.Err} }

// notSupp is ENOTSUPP, which is internal to the kernel but which some drivers return.
const notSupp = syscall.Errno(524)

// requestError converts an errno that means "not supported" in one of the kernel's ways to an
// UnsupportedError that names the method. It returns other errors unchanged.
func requestError(req *Request, err error) error {
	errno, ok := err.(syscall.Errno)
	if !ok {
		return err
	}
	e := &UnsupportedError{Request: req.Name(), Err: err}
	if _, isCommand := req.command(); !isCommand {
		if m := MethodOf(req.Object, req.Method); m != nil {
			e.Since = m.Since
		}
	}
	switch errno {
	case syscall.EPROTONOSUPPORT, syscall.EOPNOTSUPP, syscall.ENOSYS, notSupp:
		return e
	case syscall.ENOTTY: // no ioctl at all
		e.Since = "5.0"
		return e
	}
	return err
}

// CredentialsError reports that the kernel refused a command of write(2), because the thread's
// credentials differ from the opener's. It is an EACCES.
type CredentialsError struct {
	Node string // the character device
	Err  error  // EACCES
}

// Error names the possible causes.
func (e *CredentialsError) Error() string {
	return fmt.Sprintf("write %s: %v: the kernel accepts commands only with the credentials that opened the device, and these differ: "+
		"set user, group and capabilities before opening it, and do not use it after fork or exec or in a process that it was passed to",
		e.Node, e.Err)
}

// Unwrap returns Err.
func (e *CredentialsError) Unwrap() error { return e.Err }

// write sends a command with write(2), and explains its special errors.
func (f *File) write(cmd []byte) error {
	err := f.t.Write(cmd)
	if err == syscall.EACCES {
		return &CredentialsError{Node: f.info.Node, Err: err}
	}
	return err
}

// ABIVersionError reports that this module does not support the kernel's version of the verbs
// interface.
type ABIVersionError struct {
	Kernel uint32 // /sys/class/infiniband_verbs/abi_version
	Known  uint32
}

// Error names both versions.
func (e *ABIVersionError) Error() string {
	return fmt.Sprintf("the kernel's verbs interface has ABI version %d, this program supports %d", e.Kernel, e.Known)
}

// Unwrap returns errors.ErrUnsupported.
func (e *ABIVersionError) Unwrap() error { return errors.ErrUnsupported }
