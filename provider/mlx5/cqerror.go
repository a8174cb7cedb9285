// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"fmt"
	"unsafe"
)

// CQEError is a completion queue entry that makes no sense: the device, or the
// kernel that told it where to write, is not what it should be. What it is about is
// unknown, and with it the state of some queue.
type CQEError struct {
	CQ     uint32 // the device's number of the CQ
	Reason string
	CQE    [cqeSize]byte // as it was found
}

// Error names the CQ, the reason and the entry.
func (e *CQEError) Error() string {
	return fmt.Sprintf("mlx5: CQ %#x: impossible completion: %s: % x", e.CQ, e.Reason, e.CQE)
}

// fail remembers why nothing can be polled any more, and has all polls find an empty
// ring.
func (c *CQ) fail(e unsafe.Pointer, reason string) outcome {
	c.stop(c.impossible(e, reason))
	return failed
}

// impossible returns the error that an entry makes no sense.
//
//go:noinline
func (c *CQ) impossible(e unsafe.Pointer, reason string) error {
	err := &CQEError{CQ: c.num, Reason: reason}
	copy(err.CQE[:], unsafe.Slice((*byte)(e), cqeSize))
	return err
}

// stop has all polls return err from now on. The caller holds the lock.
func (c *CQ) stop(err error) {
	c.err = err
	c.ring, c.mask = unsafe.Pointer(&emptyRing), 0
}

// emptyRing is one entry that the device has never written.
var emptyRing = func() (r struct {
	_   [0]uint64
	cqe [cqeSize]byte
}) {
	r.cqe[cqeOpOwn] = cqeInvalid << 4
	return r
}()
