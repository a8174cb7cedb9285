// SPDX-License-Identifier: Apache-2.0

// Package tool is what the counterparts of rdma-core's programs share: how they
// start and end, read their command line, look up addresses, print, and wait for
// events. Whoever prints does so in the words of the C programs, so that scripts
// which read them go on working; what those leave unsaid goes to standard error
// in a line of its own.
package tool
