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

// deviceContext is an open device of the Host. It has one context of the kernel. All Device handles
// and objects hold a reference to it.
type deviceContext struct {
	host  *Host
	info  DeviceInfo
	file  *uverbs.File
	ctx   provider.Context
	attr  DeviceAttr
	links []atomic.Uint32 // LinkLayer by port - 1
	self  *Device         // what objects return as their device

	removed chan struct{} // closed when the device was removed
	gone    atomic.Bool   // likewise
	fatal   atomic.Bool   // it was removed because it reported a fatal error

	objects     objects
	closedStats closedStats
	closing     closing
	events      events

	refs int // guarded by host.mu; 0: the context is closed or closing

	mu sync.Mutex
	pd *PD // default, or nil
}

// needKernel returns the error of the newest command that every program needs, if the kernel lacks
// it (Linux 5.10). It ignores the result. Older commands need no check: GET_CONTEXT (5.6) has
// succeeded already, and QP_CREATE is of 5.8.
func (s *deviceContext) needKernel() error {
	if _, err := s.file.QueryGIDEntry(1, 0); errors.Is(err, syscall.EPROTONOSUPPORT) {
		return err
	}
	return nil
}

// query reads the attributes that do not change while the device exists.
func (s *deviceContext) query() error {
	ex, err := s.file.QueryDeviceEx(uverbs.Driver{})
	if errors.Is(err, errors.ErrUnsupported) {
		ex.Base, err = s.file.QueryDevice()
	}
	if err != nil {
		return err
	}
	s.attr = deviceAttr(&ex.Base)
	s.attr.extend(&ex)
	if d, ok := s.ctx.(provider.SGELimiter); ok {
		s.attr.MaxSendSGE, s.attr.MaxRecvSGE = d.MaxSGE()
	}
	if d, ok := s.ctx.(provider.PacketDevice); ok {
		s.attr.Packets = d.PacketCaps()
	}
	s.attr.CompVectors = int(s.file.Context().CompVectors)
	if s.info.NodeGUID == 0 {
		s.info.NodeGUID = s.attr.NodeGUID
	}
	s.links = make([]atomic.Uint32, ex.Base.PhysPortCnt)
	for i := range s.links {
		s.queryLink(uint8(i + 1))
	}
	return nil
}

// queryLink returns the link layer of a port, and caches it. A port that cannot be queried has
// LinkUnspecified. That does not prevent opening the device, because its other ports may work. For
// example, only one of many representors may fail.
func (s *deviceContext) queryLink(port uint8) LinkLayer {
	p, err := s.file.QueryPort(port)
	if err != nil {
		return LinkUnspecified
	}
	s.links[port-1].Store(uint32(p.LegacyResp.LinkLayer))
	return LinkLayer(p.LegacyResp.LinkLayer)
}

// ref takes one more reference for an object. After the last reference is released, it returns
// net.ErrClosed.
func (s *deviceContext) ref() error {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	if s.refs == 0 {
		return net.ErrClosed
	}
	s.refs++
	return nil
}

// unref releases a reference, and with the last one closes the context.
func (s *deviceContext) unref() error {
	s.host.mu.Lock()
	s.refs--
	last := s.refs == 0
	if last {
		s.host.forget(s)
		s.host.keepStats(s)
	}
	s.host.mu.Unlock()
	if !last {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.pd != nil {
		err = s.pd.destroy()
	}
	closeErr := s.close()
	if err != nil && closeErr == nil {
		err = s.pd.destroy() // it has gone with the context
	}
	return errors.Join(err, closeErr)
}

// close closes the context, which has no objects any more. A provider's context may hold memory of
// its own, such as its mappings.
func (s *deviceContext) close() error {
	err := s.file.Close()
	if c, ok := s.ctx.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	return err
}

// eventError judges the error of reading an event file. EIO means that the kernel has removed the
// device. Some drivers do that without waiting for their users to release it. The connection
// manager may not have reported the removal yet.
func (s *deviceContext) eventError(err error) error {
	switch {
	case !errors.Is(err, syscall.EIO):
		return err
	case s.file.Closed(): // by this process, because event files close last
		s.file.End() // waits for that
	default:
		s.remove()
	}
	return net.ErrClosed
}

// disassociated checks whether the kernel has removed the device, after a command has failed with
// EIO. After a removal, every command fails with EIO, except commands that destroy an object. The
// command of this check reads a table of the kernel itself. A device that exists, however broken,
// does not fail it with EIO. Another goroutine may have found the removal and closed the file.
func (s *deviceContext) disassociated() bool {
	_, err := s.file.QueryGIDEntry(1, 0)
	return errors.Is(err, syscall.EIO) || errors.Is(err, net.ErrClosed) && s.isRemoved()
}

func (s *deviceContext) isRemoved() bool { return s.gone.Load() }

// remove fails all operations on the device and ends its context. Readers of completion channels may call it.
func (s *deviceContext) remove() {
	s.host.mu.Lock()
	if s.gone.Swap(true) {
		s.host.mu.Unlock()
		s.file.End() // waits for the first caller
		return
	}
	s.host.forget(s)
	s.host.mu.Unlock()
	close(s.removed)
	s.file.End()
}

// destroyed judges the error of destroying a kernel object. If the file is closed, the kernel has
// destroyed the object. destroyed then waits until the file is really closed, so that the device no
// longer reaches the memory of the object.
func (s *deviceContext) destroyed(err error) error {
	if err != nil && s.file.Closed() && errors.Is(err, net.ErrClosed) {
		return s.file.End()
	}
	return err
}
