// SPDX-License-Identifier: Apache-2.0

package netxtreme

import "encoding/binary"

var le, be = binary.LittleEndian, binary.BigEndian

// bits returns the bits hi to lo of a value.
func bits(v uint64, hi, lo uint) uint64 { return v >> lo & (1<<(hi-lo+1) - 1) }

// Registers of BAR 0.
const (
	barSize = 64 << 10

	regRequest        = 0x000 // window of a HWRM request
	regRequestTrigger = 0x100
	regWindows        = 0x400 // maps of windows to other registers
	regWindowsEnd     = 0x440
	regHealth         = 0x520
	regChannel        = 0x600 // description of the RCFW channel
	regChannelProd    = 0x60c
	regChannelTrigger = 0x700

	requestWindow = 128 // bytes of the window
	healthy       = 0x8000
)

// Doorbells of BAR 2. Each page is a DPI. Drivers of the kernel use the first one. Drivers let programs use only the
// pages from firstDPI, because those before it are Ethernet's.
const (
	doorbellBAR   = 2
	doorbellStart = 0x10000
	ethernetSize  = 4 << 20
	doorbellSize  = 8 << 20
	pageSize      = 4096
	firstDPI      = (ethernetSize - doorbellStart) / pageSize
	maxDPI        = (doorbellSize - doorbellStart) / pageSize
)

// Types of doorbells.
const (
	doorbellSQ        = 0x0
	doorbellRQ        = 0x1
	doorbellSRQ       = 0x2
	doorbellSRQArm    = 0x3
	doorbellCQ        = 0x4
	doorbellCQArmSE   = 0x5 // for solicited completions
	doorbellCQArmAll  = 0x6
	doorbellCQArmEna  = 0x7
	doorbellSRQArmEna = 0x8
	doorbellCutoffAck = 0x9
	doorbellNQ        = 0xa
	doorbellNQArm     = 0xb
	doorbellPushStart = 0xc
	doorbellPushEnd   = 0xd
	doorbellNQMask    = 0xe // like doorbellNQ, of drivers of P7
	doorbellNull      = 0xf
)

// Types of entries of notification queues.
const (
	notifyCQ    = 0x30
	notifySRQ   = 0x32
	notifyAsync = 0x2e // asynchronous event of the firmware
)

// entrySize is the size in bytes of an entry of a notification queue, a completion queue of
// Ethernet, a transmit ring, a receive ring and the queue of RCFW commands.
const entrySize = 16

// Flags of addresses in tables of pages.
const pageFlags = pageSize - 1
