// SPDX-License-Identifier: Apache-2.0

// Package streams contains the long-running test of the packages that implement net.Conn. It transfers
// pseudo-random data on many connections, in both directions at a time, while deadlines expire, dials are
// cancelled, connections are aborted and processes die. It compares every received byte. A stream that is
// not complete must not end like a complete one. At the end no object may be left.
//
// The first bytes of a connection are a seed. Both sides derive from it the data of both directions and how the
// connection ends.
//
// TestStreams takes half a minute, and longer with -soak. With -netem, the network of the micro-VM loses,
// delays and reorders packets.
package streams
