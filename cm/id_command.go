// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"net"
	"slices"
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

// try is a command that takes the ID into a new state, while nobody knows whether it
// will.
type try struct {
	before State // what the ID is in if it fails, with the events that have come since
	wrong  bool  // the state does not allow it, as far as is known
}

// commandIn is command for one that takes the ID into a new state; if it fails
// the state is what it would be without it. The state changes first because the event
// that ends it may be fetched before the command returns.
func (id *ID) commandIn(op string, state State, fn func(f *ucma.File, kid uint32) error) error {
	return id.command(op, func(f *ucma.File, kid uint32) error {
		t := new(try)
		id.mu.Lock()
		t.before, id.state = id.state, state
		t.wrong = !slices.Contains(possible[op], t.before)
		id.tries = append(id.tries, t)
		id.mu.Unlock()
		err := fn(f, kid)
		id.mu.Lock()
		defer id.mu.Unlock()
		i := slices.Index(id.tries, t)
		switch next := i + 1; {
		case err == nil:
		case next < len(id.tries):
			id.tries[next].before = t.before
		default:
			id.state = t.before
		}
		id.tries = slices.Delete(id.tries, i, i+1)
		return err
	})
}

// advance makes the transition of the table that an event means, also in the states
// that the ID would be in if the commands that run should fail, and returns what there
// is to do. The caller holds id.mu.
func (id *ID) advance(t EventType) action {
	k := id.kind()
	st := transition(id.state, t, k)
	id.state = st.next
	for _, try := range id.tries {
		was := transition(try.before, t, k)
		try.before = was.next
		// A call that is a mistake ends no connection.
		if st.do == actNone || st.do == actFlush && try.wrong {
			st.do = was.do
		}
	}
	return st.do
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
