// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"net"
	"syscall"

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
	was, file := id.current(), id.file()
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

// file returns the channel's file for commands on the ID. How they are made depends on the
// driver of its device. The caller holds id.mu.
func (id *ID) file() *ucma.File {
	if id.dev == nil {
		return id.ch.file
	}
	return id.ch.file.On(id.dev.DriverID())
}

func (id *ID) transport() verbs.Transport {
	if dev := id.Device(); dev != nil {
		return dev.Transport()
	}
	return verbs.TransportIB
}
