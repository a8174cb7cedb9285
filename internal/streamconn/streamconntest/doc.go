// SPDX-License-Identifier: Apache-2.0

// Package streamconntest tests the connections of packages that implement a streamconn.Protocol. Each test
// gets the two ends of a new connection.
package streamconntest
