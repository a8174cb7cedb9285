// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"cmp"
	"fmt"
	"syscall"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/pool"
	"purerdma/verbs"
)

// Options are the options that a Dialer and a ListenConfig have in common. The zero Options are the
// defaults. A connection registers (Window + Calls + 5) * Slot bytes for its receives, which must be at
// most 48 MiB.
type Options struct {
	// Slot is the size in bytes of the receives. The header of a message takes 32 bytes of it. So the
	// longest message that the peer can send has Slot - 32 bytes. 0 means 4096. It is 256 bytes to 1 MiB.
	Slot int
	// Window is the number of messages and requests that the peer can send before the program frees
	// one. 0 means 128. It is 1 to 4096.
	Window int
	// Calls is the number of calls that can be in progress at a time. A call is in progress until its
	// reply was freed. A call with Request.Parts counts as Parts + 1 calls. 0 means 128. It is 1 to 4096.
	Calls int
	// Spin bounds how long a goroutine that waits for the peer polls before it sleeps
	// (verbs.CQConfig.Spin). 0 means 10 microseconds. A negative value means that it does not poll.
	Spin time.Duration

	// rnrRetry is ConnParam.RNRRetryCount of a test. grace and unbind are answerGrace and unbindGrace, which tests change.
	rnrRetry int
	grace    time.Duration
	unbind   time.Duration
}

const (
	// answerGrace bounds how long a cancelled call that lends memory waits for the answer of the peer, and then
	// for the device.
	answerGrace = time.Second
	// unbindGrace bounds how long the end of other loans waits for the device. It is longer than a device of RoCE
	// retransmits lost packets by default, which is 7 times, each after 2 seconds.
	unbindGrace = 20 * time.Second
)

// Defaults of Options.
const (
	defaultSlot   = 4096
	defaultWindow = 128
	defaultCalls  = 128
)

// Requests of a send queue.
const (
	// maxSends bounds the send queue. Further frames wait in software.
	maxSends = 512
	// spareSends is the number of entries for frames without data, chunks of transfers, windows, and the
	// probes of package cm.
	spareSends = 32
)

// maxReceiveBytes bounds the receives of a connection. The rest of its pool is for its sends.
const maxReceiveBytes = pool.DefaultMaxBytes / 4 * 3

// withDefaults returns the options without zeros.
func (o Options) withDefaults() (Options, error) {
	o.Slot = cmp.Or(o.Slot, defaultSlot)
	o.Window = cmp.Or(o.Window, defaultWindow)
	o.Calls = cmp.Or(o.Calls, defaultCalls)
	o.grace = cmp.Or(o.grace, answerGrace)
	o.unbind = cmp.Or(o.unbind, unbindGrace)
	if o.Slot < minSlot || o.Slot > maxSlot || o.Window < 1 || o.Window > maxWindow || o.Calls < 1 || o.Calls > maxCalls {
		return o, fmt.Errorf("options Slot %d, Window %d, Calls %d, want %d to %d, 1 to %d and 1 to %d: %w",
			o.Slot, o.Window, o.Calls, minSlot, maxSlot, maxWindow, maxCalls, syscall.EINVAL)
	}
	if n := int64(o.depth()) * int64(o.Slot); n > maxReceiveBytes {
		return o, fmt.Errorf("options Slot %d, Window %d, Calls %d: %d bytes of receives, want at most %d: %w",
			o.Slot, o.Window, o.Calls, n, maxReceiveBytes, syscall.EINVAL)
	}
	return o, nil
}

// depth returns the number of receives.
func (o *Options) depth() int { return o.Window + o.Calls + controlKinds }

// receive returns the configuration of the receives.
func (o *Options) receive() *inflight.ReceiveConfig {
	return &inflight.ReceiveConfig{Size: o.Slot, Depth: o.depth()}
}

// qp returns the configuration of a QP.
func (o *Options) qp() verbs.QPConfig {
	return verbs.QPConfig{Cap: verbs.QPCap{
		SendWR: min(o.depth(), maxSends) + spareSends, SendSGE: 1,
		RecvWR: o.depth(), RecvSGE: 1,
		Inline: headerLen,
	}, PreferredInline: maxInline, OneCQ: true, Spin: o.Spin}
}

// param returns the parameters of a connection.
func (o *Options) param(p *cm.ConnParam) *cm.ConnParam {
	var param cm.ConnParam
	if p != nil {
		param = *p
	}
	param.PrivateData = hello{o.Slot, o.Window, o.Calls}.encode()
	param.RNRRetryCount = cmp.Or(o.rnrRetry, param.RNRRetryCount)
	return &param
}
