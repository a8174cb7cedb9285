// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"sync"
	"sync/atomic"

	"purerdma/internal/leak"
	"purerdma/provider"
)

// AH is an address handle. It holds the address of a remote port, which datagrams name as SendWR.AH
// (ibv_create_ah(3)). Its methods may be called concurrently.
type AH struct {
	pd   *PD
	p    provider.AH
	leak *leak.Entry

	mu     sync.Mutex // of Close
	closed atomic.Bool
}

var _ provider.AHHolder = (*AH)(nil)

// CreateAH makes an address handle for the QPs of a PD. On RoCE the kernel resolves the MAC address
// of the destination now, and may wait for the reply. The caller closes the handle.
func (p *PD) CreateAH(attr AHAttr) (*AH, error) {
	a, err := p.createAH(&attr)
	return a, p.dev.opError("create AH on", err)
}

func (p *PD) createAH(attr *AHAttr) (*AH, error) {
	if err := p.dev.checkPort("Port", attr.Port); err != nil {
		return nil, err
	}
	if err := p.attach(kindAH); err != nil {
		return nil, err
	}
	a, err := p.dev.ctx.CreateAH(&provider.AHConfig{PD: p.p, Attr: *attr})
	if err != nil {
		p.detach(kindAH)
		return nil, fmt.Errorf("%s: %w", addressText(attr), err)
	}
	return &AH{pd: p, p: a, leak: leak.Track("AH", p.dev.info.Name)}, nil
}

// addressText formats the fields of an address for errors.
func addressText(a *AHAttr) string {
	s := fmt.Sprintf("{Port %d, DLID %#x, SL %d", a.Port, a.DLID, a.SL)
	if a.Global {
		s += fmt.Sprintf(", DGID %v, SGIDIndex %d, HopLimit %d", a.GRH.DGID, a.GRH.SGIDIndex, a.GRH.HopLimit)
	}
	return s + "}"
}

// PD returns the protection domain.
func (a *AH) PD() *PD { return a.pd }

// ProviderAH returns the driver's own object, nil after Close.
func (a *AH) ProviderAH() provider.AH {
	if a == nil || a.closed.Load() {
		return nil
	}
	return a.p
}

// Close destroys the handle (ibv_destroy_ah(3)). It may be called more than once.
// Datagrams that name it and have not completed may fail.
func (a *AH) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	dev := a.pd.dev
	if a.closed.Load() {
		return dev.opError("destroy AH of", a.pd.retry())
	}
	if err := dev.destroyed(a.p.Close()); err != nil {
		return dev.opError("destroy AH of", err)
	}
	a.closed.Store(true)
	a.leak.Done()
	return dev.opError("destroy AH of", a.pd.detach(kindAH))
}
