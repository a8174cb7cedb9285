// SPDX-License-Identifier: Apache-2.0

// Package bridge hands functions of package verbs to package cm that no program needs, so
// that verbs does not export them.
package bridge

import "context"

// Verbs has functions of package verbs, for the types of that package: *Host, *Device, *QP
// and *CQ. This package cannot name them, because verbs imports it.
type Verbs[H, D, Q, C any] struct {
	// OpenIndex opens a device by the index that the connection manager names, or by its
	// node GUID if the index, there or in the list of devices, is negative. Its errors are
	// those of Host.Open.
	OpenIndex func(h H, index int, guid uint64) (D, error)
	// MarkRemoved notes that the kernel is about to remove a device: the connection manager
	// learns of it by DEVICE_REMOVAL. Every wait on the device ends, and every later call
	// fails, with a *DeviceRemovedError, but Close of its objects succeeds. The context is
	// closed at once, because the kernel's removal may wait for that. It may be called more
	// than once.
	MarkRemoved func(D)
	// Closed returns a context that ends with the channel of QP.Done.
	Closed func(Q) context.Context
	// Exclusive reports whether at most one queue completes on a CQ: the sends of one QP
	// or its receives.
	Exclusive func(C) bool
}

// Functions is the *Verbs of package verbs, which sets it when it is initialized.
var Functions any
