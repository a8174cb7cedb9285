// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"errors"
	"sync"

	"purerdma/verbs"
)

// PerDevice holds an object for each device, which all connections of the device
// share: a completion channel, and so one file descriptor however many they are,
// or a CQ. Make must be set.
type PerDevice[T interface {
	Device() *verbs.Device
	Close() error
}] struct {
	Make func(*verbs.Device) (T, error)

	mu  sync.Mutex
	all []T
}

// On returns the object of a device, making it if it is the first time.
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

// Close closes the objects. What was made on them has been closed before.
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
