// SPDX-License-Identifier: Apache-2.0

// Package nettest runs the suite for net.Conn of golang.org/x/net on the connections of this
// project. It is a module of its own, because the suite is the only use of golang.org/x/net.
//
// The suite needs both ends of a connection in one process. Between two virtual machines it therefore runs through a
// relay (TestVMRelay). Both ends are in one machine. The relay is in the other, and sends all bytes back.
package nettest
