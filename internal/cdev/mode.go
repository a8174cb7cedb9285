// SPDX-License-Identifier: Apache-2.0

package cdev

import "purerdma/abi"

// Mode is how a system call is made.
type Mode uint8

// Modes of system calls.
const (
	// Ordinary is for a call that may take long: one that waits for hardware or for a
	// peer. The Go scheduler is told of it, and starts another thread after some 20
	// microseconds.
	Ordinary Mode = iota
	// Raw is for a call that only computes. The scheduler is not told, which would cost
	// more than the call, and a thread for each of many concurrent calls.
	Raw
	// SignalsBlocked is Ordinary on a thread that takes no signals meanwhile. Go interrupts
	// its own threads with signals to preempt goroutines, and SIGCHLD and the like come to
	// any thread. Stopping or tracing the process still interrupts the call.
	SignalsBlocked
)

// Calls has the modes of the system calls of one kernel driver.
type Calls struct {
	// Command is the mode of the commands that make, modify and destroy PDs, CQs, QPs and
	// completion channels, register a little memory, or make and end a connection.
	Command Mode
	// Connect is the mode of the connection manager's CONNECT.
	Connect Mode
	// Doorbell is the mode of POST_SEND and REQ_NOTIFY_CQ.
	Doorbell Mode
}

// Drivers lists the kernel drivers whose system calls are not all Ordinary.
//
// rxe does what a command asks for on the caller's processor and waits for nobody. Its
// doorbell hands packets to the network.
//
// siw's doorbell hands bytes to TCP with MSG_DONTWAIT, of a hundred segments at most
// (SQ_USER_MAXBURST); then a thread of its own goes on. siw makes the TCP connection within
// CONNECT. After a signal it closes that connection as soon as it stands and begins again:
// docs/reference/driver-faults.md has what the peer's siw does with a connection that is closed so
// soon.
var Drivers = [...]struct {
	ID abi.DriverID
	Calls
}{
	{abi.RDMA_DRIVER_RXE, Calls{Command: Raw, Connect: Raw, Doorbell: Raw}},
	{abi.RDMA_DRIVER_SIW, Calls{Connect: SignalsBlocked, Doorbell: Raw}},
}

// CallsOf returns the modes of the system calls of a kernel driver.
func CallsOf(driver abi.DriverID) Calls {
	for i := range Drivers {
		if Drivers[i].ID == driver {
			return Drivers[i].Calls
		}
	}
	return Calls{}
}
