// SPDX-License-Identifier: Apache-2.0

// Package verbs is RDMA for Go programs: devices, protection domains, registered
// memory, completion queues and queue pairs, without cgo and without libibverbs.
//
// # Ownership
//
// Every object has a Close that may be called more than once. An object that
// others still use does not close: Close returns an error that wraps
// syscall.EBUSY and names how many of which kind are left (a PD with memory
// regions or queue pairs, a CQ with queue pairs, a channel with CQs), and may be
// called again later. A *Device is a reference to a context that is shared
// within the process: closing it always works, and the context goes when the
// last reference and the last object are closed. Nothing is freed by the
// garbage collector.
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
