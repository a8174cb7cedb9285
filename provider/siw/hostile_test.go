// SPDX-License-Identifier: Apache-2.0

//go:build linux

package siw

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/internal/ring"
	"purerdma/provider"
)

// sizeLies holds sizes of a queue that no kernel reports. The functions get the requested size.
var sizeLies = map[string]func(requested uint32) uint32{
	"no slots":        func(uint32) uint32 { return 0 },
	"half the slots":  func(requested uint32) uint32 { return same(requested) / 2 },
	"no power of two": func(requested uint32) uint32 { return 3 * same(requested) },
	"4 million slots": func(uint32) uint32 { return 1 << 22 },
	"one slot more":   func(uint32) uint32 { return 1<<22 + 1 },
	"2^31 slots":      func(uint32) uint32 { return 1 << 31 },
	"all bits 1":      func(uint32) uint32 { return ^uint32(0) },
}

// keyLies holds offsets for mmap(2) that no kernel reports.
var keyLies = map[string]func(uint64) uint64{
	"offset beyond":     func(uint64) uint64 { return 1<<62 + 1 },
	"negative offset":   func(uint64) uint64 { return 1 << 63 },
	"all bits 1":        func(uint64) uint64 { return ^uint64(0) },
	"inside the queue":  func(key uint64) uint64 { return key + 1 },
	"offset of nothing": func(uint64) uint64 { return 0 },
}

// elementLies holds numbers of elements that no kernel reports.
var elementLies = map[string]func(uint32) uint32{
	"one element less": func(requested uint32) uint32 { return requested - 1 },
	"7 elements":       func(uint32) uint32 { return abi.SIW_MAX_SGE + 1 },
	"2^32-1 elements":  func(uint32) uint32 { return ^uint32(0) },
}

// TestHostileLayouts has the kernel report sizes, offsets and numbers of elements that no kernel reports. The
// creation of the object fails, and nothing is left of it.
func TestHostileLayouts(t *testing.T) {
	for object, o := range map[string]struct {
		create   func(r *rig) (io.Closer, error)
		sizes    []func(k *kernel, lie func(uint32) uint32)
		elements []func(k *kernel, lie func(uint32) uint32)
	}{
		"CQ": {
			create: func(r *rig) (io.Closer, error) { return r.ctx.CreateCQ(&provider.CQConfig{Entries: 9}) },
			sizes:  []func(*kernel, func(uint32) uint32){func(k *kernel, lie func(uint32) uint32) { k.cqes = lie }},
		},
		"SRQ": {
			create: func(r *rig) (io.Closer, error) {
				return r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 9, MaxSGE: 2})
			},
			sizes:    []func(*kernel, func(uint32) uint32){func(k *kernel, lie func(uint32) uint32) { k.rqes = lie }},
			elements: []func(*kernel, func(uint32) uint32){func(k *kernel, lie func(uint32) uint32) { k.recvSGEs = lie }},
		},
		"QP": {
			create: func(r *rig) (io.Closer, error) {
				return r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: &cq{}, RecvCQ: &cq{},
					Cap: provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 4, RecvSGE: 2}})
			},
			sizes: []func(*kernel, func(uint32) uint32){
				func(k *kernel, lie func(uint32) uint32) { k.sqes = lie },
				func(k *kernel, lie func(uint32) uint32) { k.rqes = lie },
			},
			elements: []func(*kernel, func(uint32) uint32){
				func(k *kernel, lie func(uint32) uint32) { k.sendSGEs = lie },
				func(k *kernel, lie func(uint32) uint32) { k.recvSGEs = lie },
			},
		},
	} {
		expect := func(lie string, set func(*kernel)) {
			t.Helper()
			r := openRig(t)
			set(r.kernel)
			if _, err := o.create(r); !errors.Is(err, ring.ErrLayout) && !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s, %s: error = %v, want ErrLayout or EINVAL", object, lie, err)
			}
			if r.objects != 0 || r.mapped != 0 {
				t.Errorf("%s, %s: %d objects and %d mappings left, want 0 and 0", object, lie, r.objects, r.mapped)
			}
		}
		r := openRig(t)
		created, err := o.create(r)
		if err != nil || r.objects != 1 || r.mapped == 0 {
			t.Fatalf("%s with the correct layout: %v with %d objects and %d mappings, want 1 and at least 1", object, err, r.objects, r.mapped)
		}
		if err := created.Close(); err != nil || r.objects != 0 || r.mapped != 0 {
			t.Errorf("%s: Close = %v with %d objects and %d mappings left, want 0 and 0", object, err, r.objects, r.mapped)
		}
		for lie, size := range sizeLies {
			for _, of := range o.sizes {
				expect(lie, func(k *kernel) { of(k, size) })
			}
		}
		for lie, n := range elementLies {
			for _, of := range o.elements {
				expect(lie, func(k *kernel) { of(k, n) })
			}
		}
		for lie, key := range keyLies {
			expect(lie, func(k *kernel) { k.key = key })
		}
	}
}

// TestHostileReceiveQueue has the kernel report a receive queue that was not requested, and a receive queue in the
// memory of the send queue.
func TestHostileReceiveQueue(t *testing.T) {
	for lie, c := range map[string]struct {
		cap provider.QPCap
		set func(*kernel)
	}{
		"a receive queue that was not requested": {
			provider.QPCap{SendWR: 8, SendSGE: 1},
			func(k *kernel) {
				k.onNewQP = func(r *abi.SiwUrespCreateQP) { r.NumRQE, r.RQKey = 16, k.queue(16*112) }
			},
		},
		"one memory for both queues": {
			provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 1, RecvSGE: 1},
			func(k *kernel) { k.onNewQP = func(r *abi.SiwUrespCreateQP) { r.RQKey = r.SQKey } },
		},
	} {
		r := openRig(t)
		c.set(r.kernel)
		_, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: &cq{}, RecvCQ: &cq{}, Cap: c.cap})
		if !errors.Is(err, ring.ErrLayout) || r.objects != 0 || r.mapped != 0 {
			t.Errorf("CreateQP, %s = %v with %d objects and %d mappings left, want ErrLayout, 0 and 0", lie, err, r.objects, r.mapped)
		}
	}
}

// openRig returns a rig with a PD, but without a CQ and a QP.
func openRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{kernel: newKernel(t)}
	if err := r.openDevice(); err != nil {
		t.Fatalf("rig.openDevice: %v", err)
	}
	t.Cleanup(func() {
		if err := r.f.Close(); err != nil {
			t.Errorf("File.Close: %v", err)
		}
	})
	return r
}
