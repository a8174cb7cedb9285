// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"os"

	"purerdma/internal/leak"
	"purerdma/provider"
)

// XRCD is a domain of extended reliable connections (ibv_open_xrcd(3)). QPs of type XRCRecv in it
// receive into its SRQs. Each request names its SRQ (SendWR.RemoteSRQN). So one connection serves
// all processes that share the domain. Its methods may be called concurrently.
type XRCD struct {
	dev  *Device
	p    provider.XRCD
	refs refs
	leak *leak.Entry
}

// OpenXRCD opens the XRC domain of an open file f. All processes that open the same file share its
// domain. With a nil f, no other process has the domain. flags are os.O_CREATE and os.O_EXCL. They
// apply to the domain, not the file: O_CREATE allows creating it, and O_EXCL requires that it does
// not exist. The error wraps errors.ErrUnsupported for a device without XRC. The caller closes the
// domain. f may be closed earlier.
func (d *Device) OpenXRCD(f *os.File, flags int) (*XRCD, error) {
	x, err := d.openXRCD(f, flags)
	return x, d.opError("open XRC domain on", err)
}

func (d *Device) openXRCD(f *os.File, flags int) (*XRCD, error) {
	ctx, ok := d.ctx.(provider.XRCOpener)
	if !ok {
		return nil, fmt.Errorf("extended reliable connections: %w", errors.ErrUnsupported)
	}
	if err := d.hold(); err != nil {
		return nil, err
	}
	open := func(fd uintptr) (provider.XRCD, error) { return ctx.OpenXRCD(int32(fd), uint32(flags)) }
	var p provider.XRCD
	var err error
	if f == nil {
		p, err = ctx.OpenXRCD(-1, uint32(flags|os.O_CREATE))
	} else {
		p, err = withFD(f, open)
	}
	if err != nil {
		return nil, errors.Join(err, d.unref())
	}
	return &XRCD{dev: d.self, p: p, leak: leak.Track("XRC domain", d.info.Name)}, nil
}

// withFD calls open with the descriptor of f, which stays open during the call.
func withFD(f *os.File, open func(uintptr) (provider.XRCD, error)) (p provider.XRCD, err error) {
	c, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	if cerr := c.Control(func(fd uintptr) { p, err = open(fd) }); cerr != nil {
		return nil, cerr
	}
	return p, err
}

// Device returns the device of the domain, which need not be closed.
func (x *XRCD) Device() *Device { return x.dev }

// Close closes the domain (ibv_close_xrcd(3)), at once or with the Close of this process's
// last QP or SRQ in it, which then returns the error of both. It may be called more than once.
func (x *XRCD) Close() error {
	return x.dev.opError("close XRC domain on", x.refs.close(x))
}

func (x *XRCD) destroy() error { return x.dev.destroyed(x.p.Close()) }

func (x *XRCD) release() error {
	x.leak.Done()
	return x.dev.unref()
}

func (x *XRCD) add(k childKind) error  { return x.refs.add(k) }
func (x *XRCD) drop(k childKind) error { return x.refs.drop(k) }
func (x *XRCD) retry() error           { return x.refs.retry() }
