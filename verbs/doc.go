// SPDX-License-Identifier: Apache-2.0

// Package verbs drives RDMA devices from Go programs: protection domains, registered memory,
// completion queues and queue pairs. It needs neither cgo nor libibverbs.
//
// # Ownership
//
// Every object has a Close that may be called more than once, and objects may be closed in any
// order. After Close, an object that is still in use takes no new users. It is destroyed with the
// Close of its last user. An example is a PD with memory regions, or a CQ with queue pairs. Memory
// is freed only when no device can reach it any more. A *Device is a reference to a context that is
// shared within the process. The context closes with the last reference and the last object. The
// garbage collector frees none of these objects.
//
// # Memory that a device writes
//
// A device reads and writes registered memory without synchronizing with Go code. The race detector
// does not track these accesses. The following orders are guaranteed:
//
//   - Writes of a goroutine before it posts a request are visible to the device.
//   - Poll and Wait return a completion after the data of its request is visible to the calling
//     goroutine. The data is a received message, or the result of a READ or atomic. Other
//     goroutines need the usual synchronization with that goroutine.
//   - The completion of a receive on a QP of type RC also makes the WRITEs visible that the peer
//     posted before the message on the same QP. A WRITE completes only at its sender, and the
//     peer gets no notification.
//
// From posting to completion, the memory of a request belongs to the device. Until then, reads by
// Go code may return any mixture of bytes from before and after the request. Do not poll memory for
// the bytes of a WRITE. The device chooses the order in which they become visible, and the compiler
// may keep the first value in a register. Let the peer send a message, or a WRITE with immediate
// data, after the data.
//
// # Concurrency
//
// All methods may be called concurrently, except the methods of a [Batch] and a [RecvBatch].
// [QPConfig.Unlocked] and [CQConfig.Unlocked] restrict the use of a QP and a CQ. A Close ends waits on
// the same object with net.ErrClosed.
//
// # Errors
//
// Errors are an *[OpError] around their cause: an errno, [ErrFull], [ErrOverrun], net.ErrClosed, a
// *[DeviceRemovedError], a *[TransitionError], errors.ErrUnsupported (also on systems other than
// Linux) or the error of a context. The result of a work request is not an error but a value:
// [WC].Status and [WC].Err.
package verbs
