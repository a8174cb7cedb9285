// SPDX-License-Identifier: Apache-2.0

// Package wire is the contract between rdmavm on the host and rdmavm as
// /init in the guest: the configuration handed in with the initramfs, and
// the frames that go through one virtio-serial port while the VM runs.
//
// One port carries everything, so order is kept: once the host has read
// the frame that says how the program ended, it has read all its output.
package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// PortName is the name of the virtio-serial port.
const PortName = "rdmavm"

// ConfigPath is where the guest finds its Config in the initramfs.
const ConfigPath = "/rdmavm.json"

// DebugExit is what the guest writes to the isa-debug-exit device at an
// orderly end, and DebugExitStatus is what QEMU then exits with. Power-off
// and a panic that reboots end QEMU with 0, which therefore proves nothing.
const (
	DebugExit       = 42
	DebugExitStatus = DebugExit<<1 | 1
	DebugExitPort   = 0xf4
)

// Kind says what a frame holds.
type Kind byte

// Frames from the host to the guest.
const (
	Stdin    Kind = 'i' // data for the program
	StdinEOF Kind = 'e'
	Signal   Kind = 's' // one byte: the signal's number
	Winsize  Kind = 'w' // rows, columns as big-endian uint16
	Bye      Kind = 'b' // everything is read: leave
	// FaultDone is the answer to a Fault: text, what went wrong, or nothing.
	FaultDone Kind = 't'
)

// Frames from the guest to the host.
const (
	Stdout   Kind = 'o'
	Stderr   Kind = 'r'
	Kmsg     Kind = 'k' // kernel log
	StdinAck Kind = 'a' // big-endian uint32: bytes of stdin taken
	Note     Kind = 'n' // progress, for -v
	Start    Kind = 'p' // JSON Started: a command starts
	End      Kind = 'x' // JSON Ended: a command has ended
	Done     Kind = 'd' // all commands have ended
	Failed   Kind = 'f' // text: the guest could not do its work
	Fault    Kind = 'c' // text: what the devices are to do; FaultDone comes before the next
)

// StdinWindow is how much stdin the host sends beyond what the guest has
// acknowledged: a program that does not read its stdin must not keep
// signals from getting through.
const StdinWindow = 256 << 10

// maxFrame bounds what one frame may hold.
const maxFrame = 1 << 20

// A Conn sends and receives frames. Send may be called concurrently.
type Conn struct {
	mu sync.Mutex
	w  io.Writer
	r  io.Reader
}

// NewConn returns a Conn on rw.
func NewConn(rw io.ReadWriter) *Conn { return &Conn{w: rw, r: rw} }

// Send writes one frame.
func (c *Conn) Send(k Kind, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := make([]byte, 5, 5+len(data))
	b[0] = byte(k)
	binary.BigEndian.PutUint32(b[1:], uint32(len(data)))
	for b = append(b, data...); len(b) > 0; {
		// The guest's port is a character device that takes what its
		// buffer holds and says how much that was.
		n, err := c.w.Write(b)
		if err != nil && err != io.ErrShortWrite {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Receive reads one frame.
func (c *Conn) Receive() (Kind, []byte, error) {
	var h [5]byte
	if _, err := io.ReadFull(c.r, h[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(h[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("frame %q of %d bytes: the channel is out of step", h[0], n)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(c.r, data); err != nil {
		return 0, nil, err
	}
	return Kind(h[0]), data, nil
}
