// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"time"

	"purerdma/inflight"
	"purerdma/pool"
)

// buffersPerNode is the number of pools of a node, one for each PD.
const buffersPerNode = 3

// buffersConfig leaves little memory for more than the receives of the flights, so that the workers wait
// for each other's.
func buffersConfig() pool.Config {
	flights := *lanes/8/buffersPerNode + 1
	return pool.Config{MaxBytes: flights*flightRecvs*slotLen + 512<<10, SlabSize: 256 << 10}
}

// get returns memory of the pool. In debug mode the pool panics if that memory was written while it was
// free.
func (f *flight) get(ctx context.Context, n int) (b *pool.Buf, err error) {
	defer f.recoverPool(&err)
	return f.buffers.Get(ctx, n)
}

// tryGet is get without waiting. It returns nil if it would wait.
func (f *flight) tryGet(n int) (b *pool.Buf, err error) {
	defer f.recoverPool(&err)
	if b, err = f.buffers.TryGet(n); errors.Is(err, pool.ErrExhausted) {
		return nil, nil
	}
	return b, err
}

// release frees a reference.
func (f *flight) release(b *pool.Buf) {
	if now(&f.s.spoil.leak) {
		f.s.spoil.leaked.Store(b)
		return
	}
	f.freeBuf(b)
}

// freeBuf frees a reference, and reports a panic of the pool as a fault.
func (f *flight) freeBuf(b *pool.Buf) {
	var err error
	defer f.recoverPool(&err)
	b.Free()
}

// recoverPool reports a panic of the pool.
func (f *flight) recoverPool(err *error) {
	if v := recover(); v != nil {
		f.fault("%v", v)
		*err = fmt.Errorf("%v", v)
	}
}

// hold returns the Holder of an operation that uses b. If keep is set, hold also returns a
// reference for the caller.
func (f *flight) hold(b *pool.Buf, keep bool) (inflight.Holder, *pool.Buf) {
	switch {
	case f.s.spoil.early.Load():
		f.freeBuf(b)
		return noHolder{}, nil
	case keep:
		return holder{f, b.Ref()}, b
	}
	return holder{f, b}, nil
}

// holder frees the reference of an operation. In debug mode the pool checks the memory behind a Buf then, and may
// panic.
type holder struct {
	f *flight
	b *pool.Buf
}

func (h holder) Free() { h.f.freeBuf(h.b) }

// noHolder is the Holder of an operation whose memory was freed too early.
type noHolder struct{}

func (noHolder) Free() {}

// closeBuffers closes the pools after all connections. Operations may free their memory shortly after
// their QP was closed.
func (n *node) closeBuffers() error {
	var errs []error
	limit := n.s.patience
	if n.s.failed.Err() != nil {
		limit = time.Second
	}
	for _, p := range n.buffers {
		for deadline := time.Now().Add(limit); p.Stats().InUse > 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		err := p.Close()
		if s := p.Stats(); s.Registered != 0 || s.InUse != 0 || s.Waiting != 0 {
			err = errors.Join(err, fmt.Errorf("a closed pool has %+v", s))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
