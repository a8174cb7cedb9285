// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"purerdma/cm/cmtest"
	"purerdma/internal/longtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// opened is the program that TestEachCommandFails runs. It continues after a failed call.
type opened struct {
	objects []io.Closer // to be closed, youngest first
	errs    []error
}

// add records the result of creating an object, and reports whether the object exists.
func (o *opened) add(c io.Closer, err error) bool {
	if o.note(err) {
		o.objects = append(o.objects, c)
	}
	return err == nil
}

// note records the error of a call, and reports whether the call succeeded.
func (o *opened) note(err error) bool {
	if err != nil {
		o.errs = append(o.errs, err)
	}
	return err == nil
}

// close closes all objects. It calls a failed Close again.
func (o *opened) close() {
	for _, c := range slices.Backward(o.objects) {
		if !o.note(c.Close()) {
			o.note(c.Close())
		}
	}
}

// openAll creates one object of each kind and a QP of each of the types, modifies the objects,
// and closes them. It returns the errors.
func openAll(host *verbs.Host, name string, types ...verbs.QPType) []error {
	o := new(opened)
	o.open(host, name, types)
	o.close()
	return o.errs
}

func (o *opened) open(host *verbs.Host, name string, types []verbs.QPType) {
	dev, err := host.Open(name)
	if !o.add(dev, err) {
		return
	}
	events, err := dev.AsyncEvents()
	o.add(events, err)
	pd, err := dev.AllocPD()
	if !o.add(pd, err) {
		return
	}
	o.memory(pd)
	ah, err := pd.CreateAH(verbs.AHAttr{Port: 1, Global: true, GRH: verbs.GlobalRoute{DGID: verbs.GID{10: 0xff, 11: 0xff, 12: 10, 15: 2}, HopLimit: 64}})
	o.add(ah, err)
	ch, err := dev.CreateCompChannel()
	if o.add(ch, err) {
		cq, err := dev.CreateCQ(verbs.CQConfig{Entries: 9, Channel: ch})
		if o.add(cq, err) {
			o.note(cq.Resize(50))
		}
	}
	cq, err := dev.CreateCQ(verbs.CQConfig{Entries: 100})
	if !o.add(cq, err) {
		return
	}
	o.queuePairs(pd, cq, types)
	o.xrc(pd, cq)
}

// memory creates memory and a window, and moves the memory to another PD and back.
func (o *opened) memory(pd *verbs.PD) {
	mr, err := pd.Alloc(5000, verbs.LocalWrite|verbs.RemoteWrite|verbs.MWBind)
	o.add(mr, err)
	mr, err = pd.RegMR(make([]byte, 5000), verbs.LocalWrite)
	if o.add(mr, err) {
		other, err := pd.Device().AllocPD()
		if o.note(err) {
			access := verbs.LocalWrite | verbs.RemoteRead
			o.note(mr.Reregister(verbs.MRChange{PD: other, Access: &access}))
			o.note(mr.Reregister(verbs.MRChange{PD: pd}))
			if !o.note(other.Close()) {
				o.objects = slices.Insert(o.objects, len(o.objects)-1, io.Closer(other)) // the memory closes before the PD
			}
		}
	}
	mw, err := pd.AllocMW(verbs.MWType2)
	o.add(mw, err)
}

// queuePairs creates a QP on an SRQ, and a QP of each of the types.
func (o *opened) queuePairs(pd *verbs.PD, cq *verbs.CQ, types []verbs.QPType) {
	srq, err := pd.CreateSRQ(verbs.SRQConfig{})
	if o.add(srq, err) {
		o.note(srq.Modify(verbs.SRQAttr{Limit: 5}, verbs.SRQAttrLimit))
		qp, err := pd.CreateQP(verbs.QPConfig{SRQ: srq, SendCQ: cq, RecvCQ: cq})
		o.add(qp, err)
	}
	for _, typ := range types {
		qp, err := pd.CreateQP(verbs.QPConfig{Type: typ})
		if o.add(qp, err) && typ == verbs.RC {
			o.toInit(qp)
			_, err := qp.Query()
			o.note(err)
		}
	}
}

func (o *opened) toInit(qp *verbs.QP) {
	mask := verbs.QPAttrState | verbs.QPAttrPort | verbs.QPAttrPKeyIndex | verbs.QPAttrAccess
	o.note(qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 1}, mask))
}

// xrc creates an XRC domain with an SRQ and a QP, and a QP that sends to domains.
func (o *opened) xrc(pd *verbs.PD, cq *verbs.CQ) {
	x, err := pd.Device().OpenXRCD(nil, 0)
	if !o.add(x, err) {
		return
	}
	srq, err := pd.CreateSRQ(verbs.SRQConfig{XRCD: x, CQ: cq})
	o.add(srq, err)
	for _, cfg := range []verbs.QPConfig{{Type: verbs.XRCRecv, XRCD: x}, {Type: verbs.XRCSend, SendCQ: cq}} {
		qp, err := pd.CreateQP(cfg)
		if o.add(qp, err) {
			o.toInit(qp)
		}
	}
}

// TestEachCommandFails fails each command of a program that creates one object of each kind. No
// objects may remain, and every error must name the operation and the object.
func TestEachCommandFails(t *testing.T) {
	errnos := []error{syscall.ENOMEM, syscall.EIO}
	if longtest.Enabled() {
		errnos = append(errnos, syscall.EAGAIN, syscall.EINTR)
	}
	for _, m := range []struct {
		name  string
		new   func() uverbs.Kernel
		types []verbs.QPType
	}{
		{"rxe0", func() uverbs.Kernel { return uverbstest.New("rxe0") }, []verbs.QPType{verbs.RC}},
		{"siw0", func() uverbs.Kernel { return uverbstest.NewSIW("siw0") }, []verbs.QPType{verbs.RC}},
		{"erdma_0", func() uverbs.Kernel { return uverbstest.NewERDMA("erdma_0") }, []verbs.QPType{verbs.RC}},
		{"mlx5_0", func() uverbs.Kernel { return inprocess.New(inprocess.Config{}, "mlx5_0") }, []verbs.QPType{verbs.RC, verbs.UC, verbs.UD}},
	} {
		t.Run(m.name, func(t *testing.T) {
			// Unsupported features also fail without an injected fault.
			lacks := len(openAll(cmtest.New(m.new()).Host(), m.name, m.types...))
			for _, errno := range errnos {
				for n := int64(1); ; n++ {
					k := cmtest.New(m.new())
					var seen atomic.Int64
					var hit cmtest.Command
					k.OnCommand(func(c cmtest.Command) error {
						if seen.Add(1) != n {
							return nil
						}
						hit = c
						return errno
					})
					errs := openAll(k.Host(), m.name, m.types...)
					if seen.Load() < n {
						break
					}
					found := false
					for _, err := range errs {
						var oe *verbs.OpError
						if !errors.As(err, &oe) || oe.Op == "" || oe.Object == "" {
							t.Errorf("%v of %s: error = %v, want an operation and an object", errno, hit.Name, err)
						}
						found = found || errors.Is(err, errno)
					}
					if !found && len(errs) > lacks {
						t.Errorf("%v of %s: errors = %q, want one that wraps the errno", errno, hit.Name, errs)
					}
					if left := k.Left(); len(left) > 0 {
						t.Errorf("%v of %s: Left() = %q, want nothing", errno, hit.Name, left)
					}
				}
			}
		})
	}
}
