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
