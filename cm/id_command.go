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
	was, file := id.state, id.ch.file
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

// commandIn is command for one that takes the ID into a new state; if it fails
// the state is again what it was. The state changes first because the event that
// ends it may be fetched before the command returns.
func (id *ID) commandIn(op string, state State, fn func(f *ucma.File, kid uint32) error) error {
	return id.command(op, func(f *ucma.File, kid uint32) error {
		id.mu.Lock()
		before := id.state
		id.state = state
		id.mu.Unlock()
		err := fn(f, kid)
		if err != nil {
			id.mu.Lock()
			if id.state == state {
				id.state = before
			}
			id.mu.Unlock()
		}
		return err
	})
}

// swapState takes the ID from one state to another, and returns the one that it was
// in: if that is not from, nothing has changed.
func (id *ID) swapState(from, to State) (was State) {
	id.mu.Lock()
	defer id.mu.Unlock()
	was = id.state
	if was == from {
		id.state = to
	}
	return was
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

func (id *ID) transport() verbs.Transport {
	if dev := id.Device(); dev != nil {
		return dev.Transport()
	}
	return verbs.TransportIB
}
