// SPDX-License-Identifier: Apache-2.0

// Package soak holds the test that runs long: random traffic on many queue pairs,
// with everything that a driver can do, while connections end, processes die, and
// memory comes and goes. Every byte is checked, every request is accounted for, and
// at the end nothing may be left.
//
// The two sides of a connection are alike. Each sends numbered messages with
// checksums, and writes, reads and counts in a region of the other's, of which it
// keeps a copy. A message takes a receive of the peer's, of which it has to have
// been told: a Credit. When a side has had enough it says so (quiet), and when both
// have, each tells how much it has sent and what must stand in the other's region
// (fin). A connection may also end in the middle of things, as its plan has it:
// then every request that was posted must still complete, once.
//
// TestSoak takes a minute, make soak has it take longer. What a driver does wrong is
// in docs/reference/driver-faults.md; what the traffic spares rxe and siw for that is in a file
// for each.
package soak
