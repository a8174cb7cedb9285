// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"

	"purerdma/inflight"
	"purerdma/pool"
	"purerdma/verbs"
)

// SharedConfig configures a Shared. The zero SharedConfig is the default.
type SharedConfig struct {
	// Pool configures the pool of each device. Its Access must have no remote rights. The receives
	// take their memory from it.
	Pool pool.Config
	// Receive configures the receives of each device.
	Receive inflight.ReceiveConfig
	// Poller configures the completion queues of each device.
	Poller inflight.PollerConfig
}

// Shared holds the objects that many connections use together. On each device it has a protection
// domain, a memory pool, receives on an SRQ, and completion queues. An idle connection then has
// neither memory for receives nor a completion queue, and needs no file descriptor for completions.
// Listeners and Dialers can use one Shared together. Its methods may be called concurrently.
//
// The protection domain refuses memory with remote rights ([verbs.PD.RefuseRemote]), because each
// peer of the connections could use it. A connection that lends memory to its peer binds a memory
// window of type 2, or does not use a Shared.
//
// A device without shared receive queues (verbs.DeviceAttr.MaxSRQ is 0) does not use the Shared: see
// [Dialer.Shared].
//
// Messages of all connections use the same receives. A connection whose program does not free its
// messages fails at inflight.ReceiveConfig.MaxHeld.
//
// On rxe from Linux 6.12 on, a connection that ends in the middle of a message costs a receive
// (docs/reference/driver-faults.md). The Shared posts others in place of the lost ones, up to Depth of them. The
// memory of a lost one is used again when each connection of that time has got a message or ended. So a
// peer that causes this all the time can still stop the messages of the others there, while some
// connections get none.
type Shared struct {
	config SharedConfig

	mu      sync.Mutex // guards the following fields
	devices []*sharedDevice
	closed  bool
}

// sharedDevice is the part of a Shared on one device.
type sharedDevice struct {
	dev      *verbs.Device
	pd       *verbs.PD
	pool     *pool.Pool
	receives *inflight.SharedReceives
	poller   *inflight.Poller
}

// NewShared makes a Shared. It makes its objects when the first connection of a device needs them. The
// caller closes it.
func NewShared(cfg SharedConfig) *Shared { return &Shared{config: cfg} }

var errSharedRemote = fmt.Errorf("SharedConfig.Pool.Access has remote rights, which every peer could use: %w", syscall.EINVAL)

// on returns the part on a device.
func (s *Shared) on(dev *verbs.Device) (*sharedDevice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("the Shared of the connection: %w", net.ErrClosed)
	}
	s.devices = slices.DeleteFunc(s.devices, func(d *sharedDevice) bool {
		return removed(d.dev) && d.close() == nil
	})
	for _, d := range s.devices {
		if d.dev.Same(dev) {
			return d, nil
		}
	}
	d := &sharedDevice{dev: dev}
	if err := d.open(&s.config); err != nil {
		return nil, errors.Join(err, d.close())
	}
	s.devices = append(s.devices, d)
	return d, nil
}

func (d *sharedDevice) open(cfg *SharedConfig) (err error) {
	if d.pd, err = d.dev.AllocPD(); err != nil {
		return err
	}
	if err = d.pd.RefuseRemote(); err != nil {
		return err
	}
	d.dev = d.pd.Device() // stays valid without the connection
	if d.pool, err = pool.New(d.pd, cfg.Pool); err != nil {
		return err
	}
	if d.receives, err = inflight.NewSharedReceives(d.pool, cfg.Receive); err != nil {
		return err
	}
	d.poller, err = inflight.NewPoller(d.dev, cfg.Poller)
	return err
}

// close closes everything. Objects that connections still use end with the last of them.
func (d *sharedDevice) close() error {
	var errs []error
	if d.poller != nil {
		errs = append(errs, d.poller.Close())
	}
	if d.receives != nil {
		errs = append(errs, d.receives.Close())
	}
	if d.pool != nil {
		errs = append(errs, d.pool.Close())
	}
	if d.pd != nil {
		errs = append(errs, d.pd.Close())
	}
	return errors.Join(errs...)
}

// Close ends the Shared. New connections fail with net.ErrClosed. Existing connections get no more
// messages when the posted receives are used up, and the objects are released with the last of them.
// So close the connections first. Close may be called more than once. After an error it tries
// again.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for _, d := range s.devices {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}

// pdOf is Dialer.PD of a connection with a Shared.
func (s *Shared) pdOf(dev *verbs.Device) (*verbs.PD, error) {
	d, err := s.on(dev)
	if err != nil {
		return nil, err
	}
	return d.pd, nil
}

// createQP makes the QP of a connection on the PD of pdOf.
func (s *Shared) createQP(pd *verbs.PD, cfg verbs.QPConfig) (*verbs.QP, error) {
	d, err := s.on(pd.Device())
	if err != nil {
		return nil, err
	}
	cfg.SRQ = d.receives.SRQ()
	return d.poller.CreateQP(pd, cfg)
}
