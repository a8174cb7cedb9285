// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"syscall"

	"purerdma/oob"
	"purerdma/verbs"
)

// plain is a side that connects without the connection manager. The two sides exchange the
// addresses of their QPs over TCP.
type plain struct {
	*tcpControl
	dev  *verbs.Device
	pd   *verbs.PD
	path oob.Path
	lid  uint16
	gid  verbs.GID // zero if peers reach the port by its LID
}

// maxRdAtomic is the number of reads and atomics that a QP has in flight, if the device
// supports it.
const maxRdAtomic = 16

// openPlain opens the device and finds the values for the plan.
func openPlain(o *options) (*plain, error) {
	w := &plain{path: oob.Path{Port: uint8(o.ibPort)}}
	var source netip.Addr
	if o.source != "" {
		var err error
		if source, err = netip.ParseAddr(o.source); err != nil {
			return nil, fmt.Errorf("-B: %w", err)
		}
	}
	var err error
	if w.dev, err = w.find(o.host, o.device, source); err != nil {
		return nil, err
	}
	if err = w.choose(o.gid, source); err == nil {
		w.pd, err = w.dev.AllocPD()
	}
	if err != nil {
		w.dev.Close()
		return nil, err
	}
	return w, nil
}

// choose selects the address of the port.
func (w *plain) choose(index int, source netip.Addr) error {
	if w.dev.Transport() == verbs.TransportIWARP {
		return fmt.Errorf("%s is iWARP, which needs the connection manager: use -R", w.dev.Name())
	}
	port, err := w.dev.QueryPort(w.path.Port)
	if err != nil {
		return err
	}
	w.lid = port.LID
	if port.LinkLayer != verbs.LinkEthernet && !port.GRHRequired && index < 0 {
		return nil
	}
	if index < 0 {
		g, err := w.dev.GIDFor(w.path.Port, source)
		w.path.SGIDIndex, w.gid = g.Index, g.GID
		return err
	}
	all, err := w.dev.GIDs()
	if err != nil {
		return err
	}
	for _, g := range all {
		if g.Port == w.path.Port && int(g.Index) == index {
			w.path.SGIDIndex, w.gid = g.Index, g.GID
			return nil
		}
	}
	return fmt.Errorf("-x %d: %s has no such GID on port %d", index, w.dev.Name(), w.path.Port)
}

// find opens the device with a name, the device of an address, or the first one.
func (w *plain) find(h *verbs.Host, name string, source netip.Addr) (*verbs.Device, error) {
	if name != "" {
		return h.Open(name)
	}
	infos, err := h.Devices()
	if err != nil {
		return nil, err
	}
	var closed error
	for _, info := range infos {
		dev, err := h.Open(info.Name)
		if err != nil { // the driver may be unknown
			closed = cmp.Or(closed, err)
			continue
		}
		if !source.IsValid() {
			return dev, nil
		}
		if _, err := dev.GIDFor(w.path.Port, source); err == nil {
			return dev, nil
		}
		dev.Close()
	}
	switch {
	case source.IsValid() && closed != nil:
		return nil, fmt.Errorf("-B: no device that can be opened has the address %v: %w", source, closed)
	case source.IsValid():
		return nil, fmt.Errorf("-B: no device has the address %v", source)
	case closed != nil:
		return nil, closed
	}
	return nil, fmt.Errorf("%w: no RDMA device (run rdmadoctor to find out why)", verbs.ErrNoDevice)
}

// agree lowers the path options of a plan to the abilities of this side.
func (w *plain) agree(p *plan) error {
	port, err := w.dev.QueryPort(w.path.Port)
	if err != nil {
		return err
	}
	attr := w.dev.Attr()
	if p.MTU == 0 || p.MTU > port.ActiveMTU.Bytes() {
		p.MTU = port.ActiveMTU.Bytes()
	}
	if p.RdAtomic == 0 {
		p.RdAtomic = maxRdAtomic
	}
	p.RdAtomic = min(p.RdAtomic, attr.MaxQPRdAtom, attr.MaxQPInitRdAtom)
	for m := verbs.MTU256; m <= verbs.MTU4096; m++ {
		if m.Bytes() <= p.MTU {
			w.path.MTU = m
		}
	}
	w.path.RdAtomic = max(1, p.RdAtomic)
	w.path.AckTimeout = verbs.DecodeAckTimeout(uint8(p.Timeout))
	w.path.Access = p.kind.access
	if p.connection == verbs.UD && p.Max > p.MTU {
		return fmt.Errorf("%d bytes do not fit into a datagram of %d bytes", p.Max, p.MTU)
	}
	return nil
}

func (w *plain) Device() *verbs.Device { return w.dev }

// Init implements pendingConn.
func (w *plain) Init(qp *verbs.QP) error { return w.path.Init(qp) }

// exchange creates the next QP of an end and connects it. One side sends its address first, and
// the other answers with its own.
func (w *plain) exchange(ctx context.Context, e *end, first bool) error {
	l, err := e.newLane(w)
	if err != nil {
		return err
	}
	own := oob.NewAddress(l.qp, w.lid, w.gid)
	if first {
		if err := w.send(ctx, message{QP: &own}); err != nil {
			return err
		}
	}
	m, err := w.receive(ctx)
	if err != nil {
		return err
	}
	if m.QP == nil || m.QP.QPN > max24 || m.QP.PSN > max24 {
		return fmt.Errorf("the other side has no QP: %w", syscall.EBADMSG)
	}
	if err := w.path.Connect(l.qp, own, *m.QP); err != nil {
		return err
	}
	if l.qp.Type() == verbs.UD {
		if l.ah, err = w.pd.CreateAH(w.path.AH(*m.QP)); err != nil {
			return err
		}
		l.qpn, l.qkey = m.QP.QPN, w.path.RemoteQKey()
	}
	if first {
		return nil
	}
	return w.send(ctx, message{QP: &own})
}

// max24 is the highest number of a QP or a packet.
const max24 = 1<<24 - 1

func (w *plain) close() {
	if w.tcpControl != nil {
		w.tcpControl.close()
	}
	w.pd.Close()
	w.dev.Close()
}
