// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"cmp"
	"fmt"
	"syscall"
	"time"

	"purerdma/inflight"
	"purerdma/pool"
	"purerdma/verbs"
)

// Options are the options that a Dialer and a ListenConfig have in common. The zero Options are the
// defaults.
type Options struct {
	// Slot is the size in bytes of the longest frame that a connection takes, of which the header
	// takes 16 bytes. 0 means 16 KiB. It is 256 bytes to 1 MiB. A Shared has its own.
	Slot int
	// Window bounds the frames that the peer may send before the program reads them. So a
	// connection receives up to Window times Slot bytes in advance. 0 means 32. It is 3 to 4096. Without a
	// Shared, Window times Slot is at most 32 MiB.
	Window int
	// SendBuffer bounds the bytes that Write and WriteBuf have queued and the peer's device has not yet
	// received. A write that begins below the bound may exceed it by one frame or one Buf. 0 means 256
	// KiB.
	SendBuffer int
	// Spin bounds how long a goroutine that waits for the peer polls before it sleeps
	// (verbs.CQConfig.Spin). 0 means 10 microseconds. A negative value means that it does not poll. A Shared
	// has its own.
	Spin time.Duration
	// Shared holds the receives and the memory of the connections. If it is nil, each connection of a
	// Dialer has receives of its own, which are Window times Slot bytes of registered memory. A Listener
	// makes a Shared for its connections then, unless ListenConfig.Private is set. On a device without shared
	// receive queues each connection has receives of its own.
	Shared *Shared

	// rnrRetry is ConnParam.RNRRetryCount of a test.
	rnrRetry int
}

// Defaults of Options.
const (
	defaultSlot       = 16 << 10
	defaultWindow     = 32
	defaultSendBuffer = 256 << 10
)

// withDefaults returns the options without zeros.
func (o Options) withDefaults() (Options, error) {
	o.Slot = cmp.Or(o.Slot, defaultSlot)
	if o.Shared != nil {
		o.Slot = o.Shared.config.Slot
	}
	o.Window = cmp.Or(o.Window, defaultWindow)
	o.SendBuffer = cmp.Or(o.SendBuffer, defaultSendBuffer)
	if o.Slot < minSlot || o.Slot > maxSlot || o.Window < baseWindow || o.Window > maxWindow || o.SendBuffer < 1 {
		return o, fmt.Errorf("options Slot %d, Window %d, SendBuffer %d: %w", o.Slot, o.Window, o.SendBuffer, syscall.EINVAL)
	}
	return o, nil
}

// maxReceiveBytes bounds the receives of a connection without a Shared, in bytes. They take their memory
// from the pool of the connection, and leave half of it to sends.
const maxReceiveBytes = pool.DefaultMaxBytes / 2

// checkReceives returns an error if the connection's own receives do not fit its pool.
func (o *Options) checkReceives() error {
	if n := int64(o.Slot) * int64(o.Window); o.Shared == nil && n > maxReceiveBytes {
		return fmt.Errorf("options Slot %d, Window %d: %d bytes of receives, want at most %d: %w", o.Slot, o.Window, n, maxReceiveBytes, syscall.EINVAL)
	}
	return nil
}

// on returns the options for a device. A connection on a device without shared receive queues uses no Shared.
func (o Options) on(dev *verbs.Device) Options {
	if o.Shared != nil && dev.Attr().MaxSRQ == 0 {
		o.Shared, o.Window = nil, o.depth()
	}
	return o
}

// depth returns the number of a connection's own receives. It is less than Window if Slot comes from a
// Shared, and checkReceives would refuse the two.
func (o *Options) depth() int { return min(o.Window, maxReceiveBytes/o.Slot) }

// receive returns the configuration of a connection's own receives. It has no effect on a connection that uses a
// Shared.
func (o *Options) receive() *inflight.ReceiveConfig {
	return &inflight.ReceiveConfig{Size: o.Slot, Depth: o.depth()}
}

// qp returns the configuration of a QP. The capacities for receives have no effect on a QP that uses a Shared.
func (o *Options) qp() verbs.QPConfig {
	caps := verbs.QPCap{SendWR: maxSends + controlSends + spareSends, SendSGE: 2, RecvWR: o.depth(), RecvSGE: 1, Inline: maxInline}
	return verbs.QPConfig{Cap: caps, OneCQ: true, Spin: o.Spin}
}
