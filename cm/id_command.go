// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"net"
	"syscall"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// command runs one command of the kernel on the ID.
func (id *ID) command(op string, fn func(f *ucma.File, kid uint32) error) error {
	if !id.gate.enter() {
		return id.opError(op, net.ErrClosed)
	}
	defer id.gate.leave()
	id.moving.RLock()
	defer id.moving.RUnlock()
	id.mu.Lock()
	was, file := id.current(), id.ch.file
	id.mu.Unlock()
	if was == StateRemoved {
		// The kernel says so itself, but for a moment some drivers still do as told.
		return id.opError(op, syscall.ENXIO)
	}
	if err := fn(file, id.kid); err != nil {
		return id.opError(op, misuse(op, was, err))
	}
	return nil
}

// opError gives an error the operation and the addresses. An ID whose device is
// gone answers ENXIO to everything.
func (id *ID) opError(op string, err error) error {
	if errors.Is(err, syscall.ENXIO) {
		err = id.removedError()
	}
	return &OpError{Op: op, Local: id.LocalAddr(), Remote: id.RemoteAddr(), Err: err}
}

// quick returns f for commands that make a connection or end it: they are
// computation where the device is software that waits for no peer. Hardware may
// be asked in them, and on iWARP the peer.
func (id *ID) quick(f *ucma.File) *ucma.File {
	if dev := id.Device(); dev != nil && dev.DriverID() == abi.RDMA_DRIVER_RXE {
		return f.Quick()
	}
	return f
}

// undisturbed returns f for CONNECT. siw makes the TCP connection within it, and a
// signal that comes meanwhile has it close that as soon as it stands, and begin again:
// what the peer's siw does with a connection that is closed so soon is in
// docs/driver-faults.md. A program of Go has signals all the time.
func (id *ID) undisturbed(f *ucma.File) *ucma.File {
	if dev := id.Device(); dev != nil && dev.DriverID() == abi.RDMA_DRIVER_SIW {
		return f.Undisturbed()
	}
	return id.quick(f)
}

func (id *ID) transport() verbs.Transport {
	if dev := id.Device(); dev != nil {
		return dev.Transport()
	}
	return verbs.TransportIB
}
