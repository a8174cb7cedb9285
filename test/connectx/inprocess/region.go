// SPDX-License-Identifier: Apache-2.0

package inprocess

import (
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
	"purerdma/test/connectx/prm"
)

// region has the device's part of a memory region.
type region struct {
	index uint32
	b     []byte
}

// variant returns the low byte of a new key.
func (d *device) variant() uint64 {
	d.key++
	return uint64(d.key)
}

// mkey creates a key and returns it. fill completes the key's context.
func (d *device) mkey(list []byte, fill func(c []byte)) (uint32, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	variant := d.variant()
	for len(list)%prm.Octoword != 0 {
		list = append(list, 0)
	}
	out, err := d.command(prm.OpCreateMkey, 0x110, list, 16, func(in []byte) {
		c := prm.CreateMkeyIn.Context.Of(in)
		prm.MKC.LocalRead.Set(c, 1)
		prm.MKC.QPN.Set(c, prm.AnyQP)
		prm.MKC.Key.Set(c, variant)
		n := uint64(len(list) / prm.Octoword)
		prm.MKC.TranslationOctwords.Set(c, n)
		prm.CreateMkeyIn.TranslationOctwordsActual.Set(in, n)
		fill(c)
	})
	if err != nil {
		return 0, err
	}
	return uint32(prm.ObjectOut.Number.Get(out))<<8 | uint32(variant), nil
}

// RegMR registers memory.
func (d *device) RegMR(m *fakeuverbs.MR) error {
	if m.Addr%pageSize != offset(m.Mem) {
		return syscall.EINVAL // no page size is possible
	}
	key, err := d.mkey(pageList(m.Mem), func(c []byte) {
		prm.SetMode(c, prm.AccessMTT)
		prm.MKC.PD.Set(c, uint64(m.PD.Number))
		prm.MKC.StartAddr.Set(c, m.Addr)
		prm.MKC.Length.Set(c, uint64(len(m.Mem)))
		prm.MKC.LogPageSize.Set(c, 12)
		prm.MKC.UMREnabled.Set(c, 1)
		for bit, f := range map[uint32]prm.Field{
			abi.IB_UVERBS_ACCESS_LOCAL_WRITE:      prm.MKC.LocalWrite,
			abi.IB_UVERBS_ACCESS_REMOTE_WRITE:     prm.MKC.RemoteWrite,
			abi.IB_UVERBS_ACCESS_REMOTE_READ:      prm.MKC.RemoteRead,
			abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC:    prm.MKC.Atomic,
			abi.IB_UVERBS_ACCESS_RELAXED_ORDERING: prm.MKC.RelaxedWrite,
		} {
			if m.Access&bit != 0 {
				f.Set(c, 1)
			}
		}
	})
	if err != nil {
		return err
	}
	d.mem.add(m.Mem)
	m.LKey, m.RKey = key, key
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mrs[m] = region{key >> 8, m.Mem}
	return nil
}

// ReregMR changes a region.
func (d *device) ReregMR(m *fakeuverbs.MR) error {
	d.mu.Lock()
	old := d.mrs[m]
	d.mu.Unlock()
	if err := d.RegMR(m); err != nil {
		return err
	}
	return d.drop(old)
}

// DeregMR deregisters a region.
func (d *device) DeregMR(m *fakeuverbs.MR) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.drop(d.mrs[m]); err != nil {
		return err
	}
	delete(d.mrs, m)
	return nil
}

func (d *device) drop(r region) error {
	err := d.destroy(prm.OpDestroyMkey, r.index)
	if err == nil {
		d.mem.remove(r.b)
	}
	return err
}

// AllocMW creates a window, that is, a key for a later bind by the program.
func (d *device) AllocMW(w *fakeuverbs.MW) error {
	key, err := d.mkey(nil, func(c []byte) {
		prm.SetMode(c, prm.AccessKLM)
		prm.MKC.Free.Set(c, 1)
		prm.MKC.UMREnabled.Set(c, 1)
		prm.MKC.PD.Set(c, uint64(w.PD.Number))
		prm.MKC.TranslationOctwords.Set(c, 4)
		if w.Type == 2 {
			prm.MKC.RemoteInvalidate.Set(c, 1)
		}
	})
	if err != nil {
		return err
	}
	w.RKey = key
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mws[w] = key >> 8
	return nil
}

// DeallocMW destroys a window.
func (d *device) DeallocMW(w *fakeuverbs.MW) {
	d.mu.Lock()
	index := d.mws[w]
	delete(d.mws, w)
	d.mu.Unlock()
	d.end(prm.OpDestroyMkey, index)
}
