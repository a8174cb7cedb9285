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
// then return a *[BrokenError], which has the first failure. Close a Conn before the
// memory that is posted on its QP.
//
// # Costs
//
// A connection costs two file descriptors, one for its events and one for its
// completions, and one goroutine, and parks no thread.
package cm
