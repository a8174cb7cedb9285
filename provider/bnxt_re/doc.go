// SPDX-License-Identifier: Apache-2.0

// Package bnxtre is the user-space part of bnxt_re, the driver of Broadcom's NetXtreme-E adapters.
// Requests, receives and completions are in memory of this process, which the adapter reads and
// writes. A doorbell is a store of 8 bytes to a register. No system call is needed for posting,
// polling and arming.
//
// The kernel driver and libbnxt_re of rdma-core define the layouts. There is no public manual of the
// adapter. Three generations of chips differ in details: P4 (BCM574xx), P5 (BCM575xx) and P7
// (BCM576xx). The kernel reports the features of the device, such as requests of variable size.
//
// All that the adapter and the kernel write is checked before it is used.
package bnxtre
