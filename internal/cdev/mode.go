// SPDX-License-Identifier: Apache-2.0

package cdev

import "purerdma/abi"

// Mode selects how a system call is made.
type Mode uint8

// Modes of system calls.
const (
	// Ordinary is for calls that may take long, because they wait for hardware or for a peer. The
	// Go scheduler tracks such a call, and starts another thread after some 20 microseconds.
	Ordinary Mode = iota
	// Raw is for calls that only compute. The scheduler does not track them. Tracking would cost
	// more than the call, and a thread for each of many concurrent calls.
	Raw
	// SignalsBlocked is Ordinary on a thread that takes no signals during the call. Go interrupts
	// its own threads with signals to preempt goroutines, and signals such as SIGCHLD are delivered
	// to any thread. Stopping or tracing the process still interrupts the call.
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
// rxe executes a command on the caller's processor and does not wait. Its doorbell passes packets
// to the network.
//
// siw's doorbell passes bytes to TCP with MSG_DONTWAIT, of a hundred segments at most
// (SQ_USER_MAXBURST). Then a thread of its own continues. siw makes the TCP connection within
// CONNECT. After a signal it closes that connection as soon as it is established, and starts again.
// The peer's siw has a fault with connections that are closed so soon
// (docs/reference/driver-faults.md).
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
