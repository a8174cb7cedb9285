// SPDX-License-Identifier: Apache-2.0

// Package bridge passes functions of package verbs to other packages of this module. No program
// needs them, so verbs does not export them.
package bridge

import "context"

// Verbs has functions of package verbs, for the types of that package: *Host, *Device, *QP,
// *CQ, *SRQ and *WC. This package cannot name them, because verbs imports it.
type Verbs[H, D, Q, C, S, W any] struct {
	// OpenIndex opens a device by the index that the connection manager names, or by its
	// node GUID if the index, there or in the list of devices, is negative. It returns the
	// same errors as Host.Open.
	OpenIndex func(h H, index int, guid uint64) (D, error)
	// MarkRemoved records that the kernel is about to remove a device, which the connection manager
	// reports by DEVICE_REMOVAL. Every wait on the device ends, and every later call fails, with a
	// *DeviceRemovedError, but Close of its objects succeeds. The context is closed at once,
	// because the kernel's removal may wait for that. It may be called more than once.
	MarkRemoved func(D)
	// HostValue returns the object that package cm keeps for a Host. The first call creates it.
	HostValue func(h H, create func() any) any
	// Closed returns a context that ends with the channel of QP.Done.
	Closed func(Q) context.Context
	// Attach returns the object that belongs to a QP. The first call creates it, and its Watch is
	// used as by the function Watch. create may neither block nor call methods of the QP that
	// change it. If create fails, the next call creates the object.
	Attach func(q Q, create func() (object any, w Watch, err error)) (any, error)
	// Watch has functions called when a QP changes. On a closed QP it calls w.Closed.
	Watch func(q Q, w Watch)
	// Exclusive reports whether at most one queue completes on a CQ: the sends of one QP
	// or its receives.
	Exclusive func(C) bool
	// OwnsCQs reports whether the CQs of a QP were made for it, and so have room for all of its requests.
	OwnsCQs func(Q) bool
	// Handle returns the handler of a CQ. The first call creates it. Poll and Wait pass the
	// completions with IDs from 1<<63 to it.
	Handle func(cq C, create func() Handler[W]) Handler[W]
	// Lead polls a CQ that has a handler, and waits for completions, until stop returns true. It
	// returns the errors of CQ.Wait. stop is called after each poll, without locks. One goroutine
	// at a time may lead a CQ.
	Lead func(cq C, ctx context.Context, stop func() bool) error
	// OnRelease has f called when an SRQ has been destroyed.
	OnRelease func(s S, f func())
	// Unused returns provider.UnusedReporter.Unused. ok is false if the SRQ has none.
	Unused func(s S) (n int, ok bool)
	// WakeLeader makes the leader of a CQ call its stop, now or when the next one starts to wait.
	WakeLeader func(cq C)
	// Drain passes the completions that a CQ with a handler has now to the handler. It sets others
	// aside for Poll and Wait. Any goroutine may call it, without locks that the handler takes. On a
	// CQ without a handler it does nothing.
	Drain func(cq C) error
}

// Watch has functions that are called when a QP changes. Each may be nil.
type Watch struct {
	// Failed is called without locks when an event of the device or a query has shown that the device has moved the
	// QP to the error state. cause is nil then. If the provider moves the QP there by itself, Failed is called before
	// that with a *provider.InvalidCompletionError. It may block. A Watch of a QP that has failed
	// since its last reset is called on a goroutine of its own.
	Failed func(cause error)
	// Reset is called after each move of the QP to the state RESET. It may neither block nor call
	// methods of the QP that change it.
	Reset func()
	// Closed is called once by the Close that has destroyed the QP, without locks. The
	// completions that the CQs had of the QP were passed to their handlers.
	Closed func()
	// UntilReset is set if the next move of the QP to the state RESET removes the Watch.
	UntilReset bool
}

// Handler takes completions of a CQ, of type *WC, from the goroutines that poll it.
type Handler[W any] interface {
	// Complete takes one completion, and returns false if the request is not the handler's. It is
	// called in the order of the queue, under a lock of the CQ. It must not block or poll. wc
	// is valid during the call only.
	Complete(wc W) bool
	// Empty is called when a poll has found no completion, under that lock.
	Empty()
	// Finish is called after each poll, without the lock, by the goroutine that has polled, which
	// may be the leader.
	Finish(leader bool)
}

// Functions is the *Verbs of package verbs, which sets it when it is initialized.
var Functions any

// Vendor has the functions that the packages of vendor extensions need, for the types
// *Device, *PD, *CQ, *SRQ and CQConfig of package verbs.
type Vendor[D, P, C, S, G any] struct {
	// CreateCQ is Device.CreateCQ with options of the device's driver, the field Vendor of
	// provider.CQConfig.
	CreateCQ func(dev D, cfg G, options any) (C, error)
	// Hold counts a vendor-specific QP as a user of its parents, which then live until drop. srq
	// may be nil. If drop fails, retry tries again to destroy the closed parents.
	Hold func(pd P, cq C, srq S) (drop, retry func() error, err error)
	// OpError returns the *OpError of an operation on the device, nil for nil. If the device was
	// removed, it wraps a *DeviceRemovedError.
	OpError func(dev D, op string, err error) error
}

// VendorFunctions is the *Vendor of package verbs, which sets it when it is initialized.
var VendorFunctions any

// Pool has the functions that package pool needs, for the types *PD, *MR and Access of package
// verbs.
type Pool[P, M, A any] struct {
	// Alloc is PD.Alloc, or PD.AllocHuge if huge is true, with memory on a NUMA node. A negative
	// node lets the kernel choose.
	Alloc func(pd P, size int, access A, huge bool, node int) (M, error)
	// OpError returns the *OpError of an operation on the PD's device, nil for nil. If the device
	// was removed and err is net.ErrClosed, it wraps a *DeviceRemovedError.
	OpError func(pd P, op string, err error) error
}

// PoolFunctions is the *Pool of package verbs, which sets it when it is initialized.
var PoolFunctions any
