// SPDX-License-Identifier: Apache-2.0

// Package verbs is RDMA for Go programs: devices, protection domains, registered
// memory, completion queues and queue pairs, without cgo and without libibverbs.
//
// # Ownership
//
// Every object has a Close that may be called more than once, and objects may be closed in
// any order. An object that others still use, such as a PD with memory regions or a CQ with
// queue pairs, takes no new users after Close, and is destroyed with the Close of its last
// user. Memory is freed only when no device can reach it any more. A *Device is a reference
// to a context that is shared within the process; the context closes with the last reference
// and the last object. The garbage collector frees none of these objects.
//
// # Memory that a device writes
//
// A device reads and writes registered memory without synchronising with Go code, and the race
// detector does not see it. These orders hold:
//
//   - Writes of a goroutine before it posts a request are visible to the device.
//   - Poll and Wait return a completion after the bytes of its request are visible to the
//     calling goroutine: the message of a receive, or the answer to a READ or atomic. Other
//     goroutines need the usual synchronisation with that goroutine.
//   - The completion of a receive on a QP of type RC also makes the peer's WRITEs visible that
//     were posted before the message on the same QP. A WRITE alone completes at its sender
//     only, and tells the peer nothing.
//
// From posting to completion the memory of a request belongs to the device: what Go code reads
// there is any mixture of old and new bytes. Do not poll memory for the bytes of a WRITE. The
// order in which they become visible is the device's, and the compiler may keep the first value
// in a register. Let the peer send a message, or a WRITE with immediate data, behind the data.
//
// # Concurrency
//
// All methods may be called concurrently, except those of a [Batch]. A Close
// ends waits on the same object with net.ErrClosed.
//
// # Errors
//
// Errors are an *[OpError] around their cause: an errno, [ErrFull], [ErrOverrun],
// net.ErrClosed, a *[DeviceRemovedError], a *[TransitionError], errors.ErrUnsupported
// (also on systems other than Linux) or the error of a context. How a work
// request ended is not an error but a value: [WC].Status and [WC].Err.
package verbs
