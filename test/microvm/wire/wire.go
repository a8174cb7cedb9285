// SPDX-License-Identifier: Apache-2.0

// Package wire is the contract between rdmavm on the host and rdmavm as /init in the guest. It
// consists of the configuration in the initramfs and the frames on one virtio-serial port of
// the running VM.
//
// A single port for all frames keeps their order. The frame with the program's end follows all
// of its output.
package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// PortName is the name of the virtio-serial port.
const PortName = "rdmavm"

// ConfigPath is the path of the Config in the initramfs.
const ConfigPath = "/rdmavm.json"

// DebugExit is the value that the guest writes to the isa-debug-exit device at an orderly end.
// DebugExitStatus is QEMU's resulting exit status. Power-off and a panic with reboot end QEMU
// with 0, which therefore does not prove an orderly end.
const (
	DebugExit       = 42
	DebugExitStatus = DebugExit<<1 | 1
	DebugExitPort   = 0xf4
)

// Kind identifies the contents of a frame.
type Kind byte

// Frames from the host to the guest.
const (
	Stdin    Kind = 'i' // data for the program
	StdinEOF Kind = 'e'
	Signal   Kind = 's' // one byte with the signal's number
	Winsize  Kind = 'w' // rows, columns as big-endian uint16
	Bye      Kind = 'b' // the host has read everything, and the guest must exit
	// FaultDone is the answer to a Fault. It contains an error message, or nothing.
	FaultDone Kind = 't'
)

// Frames from the guest to the host.
const (
	Stdout   Kind = 'o'
	Stderr   Kind = 'r'
	Kmsg     Kind = 'k' // kernel log
	StdinAck Kind = 'a' // big-endian uint32, bytes of stdin that were read.
	Note     Kind = 'n' // progress, for -v.
	Start    Kind = 'p' // JSON Started, a command starts.
	End      Kind = 'x' // JSON Ended, a command has ended.
	Done     Kind = 'd' // all commands have ended.
	Failed   Kind = 'f' // text, a failure of the guest.
	Fault    Kind = 'c' // text, a fault to inject. The next one follows its FaultDone.
)

// StdinWindow is the amount of stdin that the host sends in advance of acknowledgments. It is
// limited so that a program that does not read its stdin does not block signals.
const StdinWindow = 256 << 10

// maxFrame is the maximum size of a frame's contents.
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
		// The guest's port is a character device that accepts as many bytes as fit into its
		// buffer, and returns their number.
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
		return 0, nil, fmt.Errorf("frame %q of %d bytes: the channel is out of sync", h[0], n)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(c.r, data); err != nil {
		return 0, nil, err
	}
	return Kind(h[0]), data, nil
}
