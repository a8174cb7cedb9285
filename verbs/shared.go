// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"purerdma/provider"
	"purerdma/uverbs"
)

// shared is a device that the Host has open: one context of the kernel, which
// all Device handles and objects hold a reference to.
type shared struct {
	host  *Host
	info  DeviceInfo
	file  *uverbs.File
	ctx   provider.Context
	attr  DeviceAttr
	links []LinkLayer // by port - 1
	self  *Device     // what objects return as their device

	removed chan struct{} // closed when the device was removed
	gone    atomic.Bool   // the same

	objects objects
	events  events

	refs int // guarded by host.mu; 0: the context is closed or closing

	mu sync.Mutex
	pd *PD // default, or nil
}

// query fills what does not change while the device is there.
func (s *shared) query() error {
	ex, err := s.file.QueryDeviceEx(uverbs.Driver{})
	if errors.Is(err, errors.ErrUnsupported) {
		ex.Base, err = s.file.QueryDevice()
	}
	if err != nil {
		return err
	}
	s.attr = deviceAttr(&ex.Base)
	s.attr.extend(&ex)
	if d, ok := s.ctx.(provider.PacketDevice); ok {
		s.attr.Packets = d.PacketCaps()
	}
	s.attr.CompVectors = int(s.file.Context().CompVectors)
	if s.info.NodeGUID == 0 {
		s.info.NodeGUID = s.attr.NodeGUID
	}
	for port := range ex.Base.PhysPortCnt {
		p, err := s.file.QueryPort(port + 1)
		if err != nil {
			return err
		}
		s.links = append(s.links, LinkLayer(p.LegacyResp.LinkLayer))
	}
	return nil
}

// ref takes one more reference for an object; after the last one has gone it
// returns net.ErrClosed.
func (s *shared) ref() error {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	if s.refs == 0 {
		return net.ErrClosed
	}
	s.refs++
	return nil
}

// unref gives a reference back, and with the last one closes the context.
func (s *shared) unref() error {
	s.host.mu.Lock()
	s.refs--
	last := s.refs == 0
	if last && s.host.open[s.info.Name] == s {
		delete(s.host.open, s.info.Name)
	}
	s.host.mu.Unlock()
	if !last {
		return nil
	}
	var errs []error
	s.mu.Lock()
	if s.pd != nil {
		errs = append(errs, s.pd.destroy())
	}
	s.mu.Unlock()
	return errors.Join(append(errs, s.close())...)
}

// close ends the context, which has no objects any more. A provider's context may
// hold memory of its own: what it maps.
func (s *shared) close() error {
	err := s.file.Close()
	if c, ok := s.ctx.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	return err
}

// eventError judges the error of reading an event file. EIO means that the kernel
// has taken the device away, which drivers that do not wait for their users to
// let go of it can do; nobody may have called MarkRemoved yet.
func (s *shared) eventError(err error) error {
	if !errors.Is(err, syscall.EIO) {
		return err
	}
	s.remove()
	return net.ErrClosed
}

func (s *shared) isRemoved() bool { return s.gone.Load() }

// remove fails all operations on the device and closes its context.
func (s *shared) remove() {
	s.host.mu.Lock()
	if s.gone.Swap(true) {
		s.host.mu.Unlock()
		s.file.Close() // waits for who was first
		return
	}
	if s.host.open[s.info.Name] == s {
		delete(s.host.open, s.info.Name)
	}
	s.host.mu.Unlock()
	close(s.removed)
	s.file.Close()
}

// destroyed judges the error of destroying a kernel object: with a closed file
// the kernel has destroyed it. It then waits until the file is really closed, so
// that the device no longer reaches the memory of the object.
func (s *shared) destroyed(err error) error {
	if err != nil && s.file.Closed() && errors.Is(err, net.ErrClosed) {
		return s.file.Close()
	}
	return err
}
