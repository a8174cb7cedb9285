// SPDX-License-Identifier: Apache-2.0

package cmtest

import "sync/atomic"

// connectionManager is Command.Device of the connection manager.
const connectionManager = "rdma_cm"

// Command is a command that a program sends to the Kernel.
type Command struct {
	// Device is "rdma_cm", or the name of the RDMA device.
	Device string
	// Name is the kernel's name of the command, for example "CREATE_ID" of rdma_cm, or
	// "UVERBS_METHOD_QP_CREATE" and "IB_USER_VERBS_CMD_MODIFY_QP" of a device. "open" and
	// "mmap" are the system calls.
	Name string
}

// OnCommand calls f with every command before the Kernel executes it. If f returns an error,
// usually a syscall.Errno, the command fails with this error. A nil f disables the calls. For
// GET_EVENT, f is called when there is an event. The event stays in the queue if f returns an
// error. f may be called concurrently, and may call the Kernel.
func (k *Kernel) OnCommand(f func(Command) error) {
	if f == nil {
		k.onCommand.Store(nil)
		return
	}
	k.onCommand.Store(&f)
}

// FailNth returns a function for OnCommand that fails the n-th command from now on with err. n
// starts at 1.
func FailNth(n int, err error) func(Command) error {
	var seen atomic.Int64
	return func(Command) error {
		if seen.Add(1) == int64(n) {
			return err
		}
		return nil
	}
}

func (k *Kernel) ask(c Command) error {
	if f := k.onCommand.Load(); f != nil {
		return (*f)(c)
	}
	return nil
}
