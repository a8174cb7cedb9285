// SPDX-License-Identifier: Apache-2.0

package provider

import "purerdma/uverbs"

// KernelObjects is the part of a Context that drivers without data of their own in the
// commands share: protection domains, memory regions and windows. Drivers embed it.
type KernelObjects struct{ File *uverbs.File }

// AllocPD allocates a protection domain.
func (p KernelObjects) AllocPD() (PD, error) { return p.AllocPDWith(uverbs.Driver{}) }

// AllocPDWith is AllocPD for a driver with data of its own.
func (p KernelObjects) AllocPDWith(drv uverbs.Driver) (PD, error) {
	h, err := p.File.AllocPD(drv)
	if err != nil {
		return nil, err
	}
	return &plainPD{file: p.File, handle: h}, nil
}

// RegMR registers memory.
func (p KernelObjects) RegMR(cfg *MRConfig) (MR, error) { return p.RegMRWith(cfg, uverbs.Driver{}) }

// RegMRWith is RegMR for a driver with data of its own.
func (p KernelObjects) RegMRWith(cfg *MRConfig, drv uverbs.Driver) (MR, error) {
	mr, err := p.File.RegMR(cfg.PD.Handle(), cfg.Mem, cfg.IOVA, uint32(cfg.Access), drv)
	if err != nil {
		return nil, err
	}
	return p.MR(mr), nil
}

// MR returns a memory region that the kernel has made.
func (p KernelObjects) MR(mr uverbs.MR) MR { return &plainMR{file: p.File, mr: mr} }

type plainPD struct {
	file   *uverbs.File
	handle uint32
}

func (p *plainPD) Handle() uint32 { return p.handle }
func (p *plainPD) Close() error   { return p.file.DeallocPD(p.handle) }

type plainMR struct {
	file *uverbs.File
	mr   uverbs.MR // of which the keys may change
}

// Reregister is not for concurrent calls.
func (m *plainMR) Reregister(cfg *MRConfig, mask MRMask) error {
	var mem []byte
	if mask&MRMem != 0 {
		mem = cfg.Mem
	}
	mr, err := m.file.ReregMR(m.mr.Handle, uint32(mask), cfg.PD.Handle(), mem, cfg.IOVA, uint32(cfg.Access), uverbs.Driver{})
	if err == nil {
		m.mr.LKey, m.mr.RKey = mr.LKey, mr.RKey
	}
	return err
}

// AllocMW allocates a memory window.
func (p KernelObjects) AllocMW(pd PD, typ MWType) (MW, error) {
	mw, err := p.File.AllocMW(pd.Handle(), uint8(typ), uverbs.Driver{})
	if err != nil {
		return nil, err
	}
	return &plainMW{file: p.File, mw: mw}, nil
}

type plainMW struct {
	file *uverbs.File
	mw   uverbs.MW
}

func (m *plainMW) RKey() uint32 { return m.mw.RKey }
func (m *plainMW) Close() error { return m.file.DeallocMW(m.mw.Handle) }

func (m *plainMR) LKey() uint32 { return m.mr.LKey }
func (m *plainMR) RKey() uint32 { return m.mr.RKey }
func (m *plainMR) Close() error { return m.file.DeregMR(m.mr.Handle) }
