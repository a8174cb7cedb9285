// SPDX-License-Identifier: Apache-2.0

// Package cm connects queue pairs. It is the RDMA connection manager that C programs know as
// librdmacm, in Go's terms.
//
// There are two ways to use it, with the same kind of ID.
//
// The blocking way looks like package net. [Dial] makes a connection with a default queue
// pair. [Resolve] and [Listener.Accept] stop before the connection exists. The caller can then
// make its objects and post receives:
//
//	Resolve -> *Resolved -> Connect -> *Conn
//	Listen  -> Accept -> *Request -> Accept or Reject -> *Conn
//
// *Resolved and *Request are both a [PendingConn], so that one function can make the objects of
// either side.
//
// Every call that waits takes a context. If the context ends, Dial, Connect and Accept undo
// their unfinished work, and leave no connection. A [Conn.Send] whose context ends before its
// completion makes the connection unusable, because nothing else takes its memory back from the
// device. A program can abandon an operation of [Conn.StartSend], and the connection continues.
//
// The librdmacm way is an [EventChannel] with any number of [ID]s. The calls of rdma_cma.h
// have the same names here, and their outcomes are events.
//
// # End of a connection
//
// [Conn.WaitRecv] returns io.EOF when the peer has disconnected. [Conn.Wait] reports how a
// connection ended, and which side ended it. A failed work request moves the QP to the error
// state, which flushes all later work requests. The calls of a Conn then return a
// *[BrokenError], which holds the first failure.
//
// The disconnect of either side moves the QP to the error state. The posted receives and the
// outstanding requests are flushed. They complete with verbs.WCWRFlushErr, in order, after the
// completions of all messages that arrived before. A program that must not lose requests waits
// for their completions before it disconnects.
//
// # Memory
//
// [Conn.Alloc] and [Resolved.Alloc] return registered memory that belongs to the connection.
// The connection's Close frees the memory after its QP. Memory, PDs, CQs and QPs that the
// program made itself may be closed before the connection or after it. The package
// documentation of verbs states when the bytes that a device writes are visible.
//
// [Conn.Pool] returns a pool of registered memory. With [Dialer.Receive] and [ListenConfig.Receive] the
// library posts receives from it, and [Conn.Receive] returns messages in the memory of their receives.
//
// # Peers that are not trusted
//
// No peer makes [Listener.Accept] fail. A [ListenConfig] bounds the connections and the
// pending handshakes, in total and for each remote address. It also bounds the time of a
// handshake. A request over a limit is rejected, and the peer gets the reason: see [RefusalOf]. [Dialer.KeepAlive] finds peers
// that have vanished. An [EventChannel] has none of these limits, so a program that uses one
// must count its connections.
//
// Each connection has its own protection domain. A peer therefore reaches only the memory that
// it was offered, and no other peer's. See [Dialer.PD] before sharing a protection domain. A
// peer keeps a key that it received, so use keys that end with the request, as in the example
// of [Request.Accept].
//
// # Costs
//
// A connection costs two file descriptors, one goroutine and one protection domain. One
// descriptor is for its events and one for its completions. A connection parks no thread. A
// listener that has received a request costs one more file descriptor and goroutine.
//
// A connection of a [Shared] has no receives, completion queues and descriptor for completions of its
// own.
package cm
