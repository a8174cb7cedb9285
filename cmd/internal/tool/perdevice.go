// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"errors"
	"sync"

	"purerdma/verbs"
)

// PerDevice contains an object for each device that all connections of the device share. The
// object is a CQ or a completion channel, whose file descriptor is then needed only once. Make
// must be set.
type PerDevice[T interface {
	Device() *verbs.Device
	Close() error
}] struct {
	Make func(*verbs.Device) (T, error)

	mu  sync.Mutex
	all []T
}

// On returns the object of a device. The first call for a device creates it.
func (p *PerDevice[T]) On(dev *verbs.Device) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, obj := range p.all {
		if obj.Device().Same(dev) {
			return obj, nil
		}
	}
	obj, err := p.Make(dev)
	if err == nil {
		p.all = append(p.all, obj)
	}
	return obj, err
}

// Close closes the objects. The caller has closed their dependents before.
func (p *PerDevice[T]) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, obj := range p.all {
		errs = append(errs, obj.Close())
	}
	p.all = nil
	return errors.Join(errs...)
}
