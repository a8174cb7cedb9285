// SPDX-License-Identifier: Apache-2.0

package provider

import "purerdma/uverbs"

// Plain is the part of a Context that drivers without data of their own in the
// commands share: protection domains and memory regions. Drivers embed it.
type Plain struct{ File *uverbs.File }

// AllocPD allocates a protection domain.
func (p Plain) AllocPD() (PD, error) {
	h, err := p.File.AllocPD(uverbs.Driver{})
	if err != nil {
		return nil, err
	}
	return &plainPD{file: p.File, handle: h}, nil
}

// RegMR registers memory.
func (p Plain) RegMR(cfg *MRConfig) (MR, error) { return p.RegMRWith(cfg, uverbs.Driver{}) }

// RegMRWith is RegMR for a driver with data of its own.
func (p Plain) RegMRWith(cfg *MRConfig, drv uverbs.Driver) (MR, error) {
	mr, err := p.File.RegMR(cfg.PD.Handle(), cfg.Mem, cfg.IOVA, uint32(cfg.Access), drv)
	if err != nil {
		return nil, err
	}
	return &plainMR{file: p.File, mr: mr}, nil
}

type plainPD struct {
	file   *uverbs.File
	handle uint32
}

func (p *plainPD) Handle() uint32 { return p.handle }
func (p *plainPD) Close() error   { return p.file.DeallocPD(p.handle) }

type plainMR struct {
	file *uverbs.File
	mr   uverbs.MR
}

func (m *plainMR) LKey() uint32 { return m.mr.LKey }
func (m *plainMR) RKey() uint32 { return m.mr.RKey }
func (m *plainMR) Close() error { return m.file.DeregMR(m.mr.Handle) }
