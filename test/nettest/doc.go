// SPDX-License-Identifier: Apache-2.0

// Package nettest runs the suite for net.Conn of golang.org/x/net on the connections of this
// project. It is a module of its own, because the suite is the only use of golang.org/x/net.
package nettest
