// SPDX-License-Identifier: Apache-2.0

// Package soak contains the long-running test. It generates random traffic on many queue pairs,
// with all operations of a driver, while connections end, processes die, and memory is
// registered and deregistered. It verifies every byte and every completion. At the end no
// object may be left.
//
// The two sides of a connection are equal. Each sends numbered messages with checksums. Each
// writes, reads and executes atomics in a region of the other side, and keeps a copy of that
// region. A message needs a receive of the peer, which the peer announces with a Credit. When a
// side has sent enough it announces that (quiet). When both sides have, each sends the number
// of its messages and the expected checksum of the peer's region (fin). A connection may
// end early, according to its plan. Then every posted request must still complete, once.
//
// Other connections are flights. There many goroutines call the methods of a cm.Conn at a time, or have
// started operations, which they wait for or abandon. Contexts end at random moments. The memory
// comes from a pool for all flights of a PD, in the pool's debug mode. So memory that is freed while a
// device uses it has the wrong content at the peer, or was written after Free. At the end no Buf may
// be in use.
//
// TestSoak takes a minute, and longer with make soak. docs/reference/driver-faults.md describes
// the driver faults. A file for each of rxe and siw contains the restrictions of the traffic
// that avoid them.
package soak
