// SPDX-License-Identifier: Apache-2.0

// Package cm connects queue pairs: it is the RDMA connection manager that C
// programs know as librdmacm, in Go's terms.
//
// There are two ways to use it, on the same kind of ID.
//
// The blocking way looks like package net. [Dial] and [Listen] make connections
// with a default queue pair; [Resolve] and [Listener.Accept] stop at each stage,
// so that the caller can make the objects and post receives before the
// connection exists:
//
//	Resolve -> *Resolved -> Connect -> *Conn
//	Listen  -> Accept -> *Request -> Accept or Reject -> *Conn
//
// Both stages are a [PendingConn], for functions that make the objects of either side.
//
// Everything that can block takes a context. When it ends, what was begun is
// undone.
//
// The librdmacm way is an [EventChannel] with any number of [ID]s: the calls of
// rdma_cma.h have the same names here, and their outcomes are events.
//
// # How a connection ends
//
// [Conn.WaitRecv] returns io.EOF when the peer has disconnected; [Conn.Wait] says
// how a connection has ended, and which side has ended it. A work request that fails
// takes the QP with it, and all that comes after is flushed: the calls of a Conn
// then return a *[BrokenError], which has the first failure.
//
// The disconnect of either side moves the QP to the error state. The posted receives and the
// requests that have not completed are flushed: they complete with verbs.WCWRFlushErr, in
// order, after the completions of all messages that arrived before. A program that must not
// lose requests waits for their completions before it disconnects.
//
// # Memory
//
// [Conn.Alloc] and [Resolved.Alloc] return registered memory that belongs to the connection:
// its Close frees the memory after its QP. Memory, PDs, CQs and QPs that the program made
// itself may be closed before the connection or after it. The package documentation of verbs
// states when the bytes that a device writes are visible.
//
// # Peers that are not trusted
//
// No peer makes [Listener.Accept] fail. A [ListenConfig] bounds the connections and the
// pending handshakes, in total and for each remote address, and the time of a handshake;
// a peer over a limit is rejected with the reason. [Dialer.KeepAlive] finds peers that have
// vanished. Each connection has a protection domain of its own, so that a peer reaches the
// memory that it was offered and no other peer's: see [Dialer.PD] before sharing one. A peer
// keeps a key that it was given, so give keys that end with the request, as the example of
// [Request.Accept] does. An [EventChannel] has no limits: its program counts its own
// connections.
//
// # Costs
//
// A connection costs two file descriptors, one for its events and one for its
// completions, one goroutine and one protection domain, and parks no thread. A listener
// that has had a request costs one more file descriptor and goroutine.
package cm
