// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"slices"
	"sync"

	"purerdma/internal/leak"
	"purerdma/provider"
)

// PD is a protection domain (ibv_alloc_pd(3)). Queue pairs reach only the memory of their own PD.
type PD struct {
	dev   *deviceContext
	p     provider.PD
	refs  refs
	deflt bool
	leak  *leak.Entry

	onDemand onDemand
	refused  refusedMRs
	remote   remoteRights
}

// AllocPD allocates a protection domain. The caller closes it.
func (d *Device) AllocPD() (*PD, error) {
	if err := d.hold(); err != nil {
		return nil, d.opError("allocate PD on", err)
	}
	p, err := d.ctx.AllocPD()
	if err != nil {
		d.unref()
		return nil, d.opError("allocate PD on", err)
	}
	return &PD{dev: d.deviceContext, p: p, leak: leak.Track("PD", d.info.Name)}, nil
}

// DefaultPD returns the PD that all users of the device may share. It belongs to the device, and
// closing it does nothing.
func (d *Device) DefaultPD() (*PD, error) {
	// The reference keeps the context open, and with it the PD, until the end of this call.
	if err := d.hold(); err != nil {
		return nil, d.opError("allocate PD on", err)
	}
	defer d.unref()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pd == nil {
		p, err := d.ctx.AllocPD()
		if err != nil {
			return nil, d.opError("allocate PD on", err)
		}
		d.pd = &PD{dev: d.deviceContext, p: p, deflt: true, leak: leak.Track("PD", d.info.Name)}
	}
	return d.pd, nil
}

// Device returns the device of the PD, which need not be closed.
func (p *PD) Device() *Device { return p.dev.self }

// Provider returns the provider's PD, for extensions of one vendor.
func (p *PD) Provider() provider.PD { return p.p }

// Close releases the PD (ibv_dealloc_pd(3)). New objects fail with net.ErrClosed from now on. The
// PD is deallocated at once, or with the Close of the last object on it, which then returns the
// error of both. Close may be called more than once. After an error, the next Close tries again,
// and so does the next Close of an object that was on the PD.
func (p *PD) Close() error {
	if p.deflt {
		return nil
	}
	return p.dev.opError("deallocate PD on", p.refs.close(p))
}

func (p *PD) destroy() error {
	if err := p.dev.destroyed(p.p.Close()); err != nil {
		return err
	}
	p.leak.Done()
	return nil
}

func (p *PD) release() error { return p.dev.unref() }

// attach counts a new object on the PD. It also holds the device.
func (p *PD) attach(k childKind) error {
	if err := p.refs.add(k); err != nil {
		return err
	}
	if err := p.dev.ref(); err != nil {
		return errors.Join(err, p.refs.drop(k))
	}
	return nil
}

// detach is the inverse of attach.
func (p *PD) detach(k childKind) error {
	err := p.refs.drop(k)
	if uerr := p.dev.unref(); uerr != nil {
		err = errors.Join(err, uerr)
	}
	return err
}

// retry destroys a closed PD if detach of its last object has failed to do so. Close of an
// object calls it after the object has gone.
func (p *PD) retry() error { return p.refs.retry() }

// refusedMRs lists the memory regions whose Close the kernel has refused.
type refusedMRs struct {
	mu   sync.Mutex
	list []*MR
}

func (r *refusedMRs) add(m *MR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.list, m) {
		r.list = append(r.list, m)
	}
}

func (r *refusedMRs) remove(m *MR) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(o *MR) bool { return o == m })
}

func (r *refusedMRs) has(m *MR) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.list, m)
}

func (r *refusedMRs) all() []*MR {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// closeRefused retries the Close of the memory regions whose Close the kernel has refused. Their
// Close has returned the error.
func (p *PD) closeRefused() {
	for _, mr := range p.refused.all() {
		_ = mr.Close()
	}
}
