// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"slices"

	"purerdma/verbs"
)

// connPD returns pd, or if that is nil the PD of the ID. The Dialer or ListenConfig chooses
// the ID's PD. Otherwise the ID has its own PD, which is made when it is first needed and
// released with the ID.
func (id *ID) connPD(op string, pd *verbs.PD) (*verbs.PD, error) {
	if err := id.enter(op); err != nil {
		return nil, err
	}
	defer id.leave()
	dev := id.Device()
	if dev == nil {
		return nil, id.noDevice(op)
	}
	if pd != nil {
		return pd, nil
	}
	id.pdMu.Lock()
	defer id.pdMu.Unlock()
	if id.pd != nil {
		return id.pd, nil
	}
	choose := id.pdOf
	if choose == nil {
		choose = (*verbs.Device).AllocPD
	}
	pd, err := choose(dev)
	if err != nil {
		return nil, id.opError(op, err)
	}
	id.pd, id.ownPD = pd, id.pdOf == nil
	return pd, nil
}

// alloc registers new memory on a PD. The memory is freed with the ID, after its QP.
func (id *ID) alloc(op string, pd *verbs.PD, size int, access verbs.Access) (*verbs.MR, error) {
	// A concurrent Close finds the memory, or makes enter fail.
	if err := id.enter(op); err != nil {
		return nil, err
	}
	defer id.leave()
	mr, err := pd.Alloc(size, access)
	if err != nil {
		return nil, id.opError(op, err)
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if len(id.buffers) == cap(id.buffers) {
		id.buffers = slices.DeleteFunc(id.buffers, isClosed)
	}
	id.buffers = append(id.buffers, mr)
	return mr, nil
}

// isClosed reports whether a memory region of alloc has been closed.
func isClosed(mr *verbs.MR) bool { return mr.Bytes() == nil }

// closeBuffers frees the memory of alloc. It keeps a region whose Close fails, so that a later
// call can try again.
func (id *ID) closeBuffers() error {
	id.mu.Lock()
	buffers := id.buffers
	id.buffers = nil
	id.mu.Unlock()
	if len(buffers) == 0 {
		return nil
	}
	var errs []error
	buffers = slices.DeleteFunc(buffers, func(mr *verbs.MR) bool {
		err := mr.Close()
		errs = append(errs, err)
		return err == nil
	})
	id.mu.Lock()
	id.buffers = buffers
	id.mu.Unlock()
	return errors.Join(errs...)
}
