// SPDX-License-Identifier: Apache-2.0

// Package connections contains the long-running test of the packages that implement net.Conn, and of package msg.
// It uses many connections in both directions at a time, while deadlines expire, dials are cancelled, connections
// are aborted and processes die. It compares every received byte. At the end no object may be left.
//
// Connections of packages stream and rsocket transfer pseudo-random data. A stream that is not complete must not end
// like a complete one.
//
// Connections of package msg make calls of all kinds: with lent memory, with several replies, with failures, and
// one-way messages. Some calls are cancelled. Memory must not change after the call that has lent it. The messages of
// a goroutine must arrive in their order, and none may be missing.
//
// The first bytes of a connection are a seed. Both sides derive from it the data of both directions and how the
// connection ends.
//
// TestConnections takes a minute, and longer with -soak. With -netem, the network of the micro-VM loses, delays and
// reorders packets. With -removals, a device is removed at times.
package connections
