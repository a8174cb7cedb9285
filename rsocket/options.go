// SPDX-License-Identifier: Apache-2.0

package rsocket

import (
	"cmp"
	"fmt"
	"syscall"
	"time"

	"purerdma/verbs"
)

// Options configures the connections of a Dialer or a ListenConfig. The zero value has the defaults
// of rdma-core without files in /etc/rdma/rsocket.
type Options struct {
	// SendBuffer and RecvBuffer are the sizes of the connection's two buffers in bytes, which are
	// registered memory. They are rounded up to a multiple of 16. 0 means 128 KiB. The smallest
	// size is 4 KiB, and the largest 1 GiB. SO_SNDBUF and SO_RCVBUF of rsetsockopt(3) are half of
	// these sizes.
	SendBuffer, RecvBuffer int
	// SendQueue and RecvQueue are the sizes of the QP's queues, in messages. 0 means 384. Other values
	// are adjusted to at least 16, and at most the limit of the device and 65534, the limit of the
	// protocol. (RDMA_SQSIZE and RDMA_RQSIZE.)
	SendQueue, RecvQueue int
	// Inline is the size in bytes up to which messages are copied into the send queue, so that the
	// device need not read them from the buffer. 0 means 64. A negative value means the least size that
	// the transport needs. (RDMA_INLINE.)
	Inline int
	// Maps is the number of mappings of memory that the peer may have: see [Conn.Map]. 0 means none.
	// Numbers above 128 are rounded down to 128 or to a multiple of 256. The largest is 32512.
	// (RDMA_IOMAPSIZE.)
	Maps int
	// KeepAlive is the idle time after which the peer is probed. 0 means 15 seconds. A negative
	// value means no probes. rdma-core does not probe unless SO_KEEPALIVE is set.
	KeepAlive time.Duration
	// Spin bounds how long a goroutine that waits for the peer polls before it sleeps
	// (verbs.CQConfig.Spin, and polling_time of rdma-core). 0 means 10 microseconds. A negative value means
	// that it does not poll.
	Spin time.Duration
}

// Defaults and limits of Options.
const (
	defaultBuffer    = 128 << 10
	minBuffer        = 4 << 10
	maxBuffer        = 1 << 30
	bufferUnit       = 16
	defaultQueue     = 384
	minQueue         = 16
	maxQueue         = 0xfffe
	defaultInline    = 64
	defaultKeepAlive = 15 * time.Second
)

// withDefaults checks the options and replaces zeros by defaults.
func (o Options) withDefaults() (Options, error) {
	o.SendBuffer = cmp.Or(o.SendBuffer, defaultBuffer)
	o.RecvBuffer = cmp.Or(o.RecvBuffer, defaultBuffer)
	o.SendQueue = cmp.Or(o.SendQueue, defaultQueue)
	o.RecvQueue = cmp.Or(o.RecvQueue, defaultQueue)
	o.Inline = max(0, cmp.Or(o.Inline, defaultInline))
	o.KeepAlive = cmp.Or(o.KeepAlive, defaultKeepAlive)
	for _, b := range []struct {
		name           string
		value          *int
		least, largest int
	}{
		{"SendBuffer", &o.SendBuffer, minBuffer, maxBuffer},
		{"RecvBuffer", &o.RecvBuffer, minBuffer, maxBuffer},
		{"Maps", &o.Maps, 0, maxMaps},
	} {
		if *b.value < b.least || *b.value > b.largest {
			return o, fmt.Errorf("%s is %d, want %d to %d: %w", b.name, *b.value, b.least, b.largest, syscall.EINVAL)
		}
	}
	o.SendBuffer = (o.SendBuffer + bufferUnit - 1) &^ (bufferUnit - 1)
	o.RecvBuffer = (o.RecvBuffer + bufferUnit - 1) &^ (bufferUnit - 1)
	o.Maps = decodeMaps(encodeMaps(o.Maps))
	return o, nil
}

// forDevice adjusts the sizes of the queues and of inline messages to a device.
func (o Options) forDevice(attr *verbs.DeviceAttr, iwarp bool) Options {
	most := min(attr.MaxQPWR, maxQueue, (attr.MaxCQE-extraRecvs)/2)
	o.SendQueue = max(min(o.SendQueue, most), minQueue)
	o.RecvQueue = max(min(o.RecvQueue, most-extraRecvs), minQueue)
	if iwarp {
		o.Inline = max(o.Inline, messageLen)
	}
	return o
}
