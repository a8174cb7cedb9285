// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"io"
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

// openAll makes one object of each kind, and a QP of each of the types, goes on after those that fail, and closes what it has.
// A Close that fails is called again. It returns the errors.
func openAll(host *verbs.Host, name string, types ...verbs.QPType) (errs []error) {
	var opened []io.Closer
	note := func(c io.Closer, err error) bool {
		if err != nil {
			errs = append(errs, err)
			return false
		}
		opened = append(opened, c)
		return true
	}
	defer func() {
		for i := len(opened) - 1; i >= 0; i-- {
			if err := opened[i].Close(); err != nil {
				errs = append(errs, err)
				if err := opened[i].Close(); err != nil {
					errs = append(errs, err)
				}
			}
		}
	}()
	dev, err := host.Open(name)
	if !note(dev, err) {
		return errs
	}
	events, err := dev.AsyncEvents()
	note(events, err)
	pd, err := dev.AllocPD()
	if !note(pd, err) {
		return errs
	}
	mr, err := pd.Alloc(5000, verbs.LocalWrite|verbs.RemoteWrite|verbs.MWBind)
	note(mr, err)
	mr, err = pd.RegMR(make([]byte, 5000), verbs.LocalWrite)
	note(mr, err)
	mw, err := pd.AllocMW(verbs.MWType2)
	note(mw, err)
	ah, err := pd.CreateAH(verbs.AHAttr{Port: 1, Global: true, GRH: verbs.GlobalRoute{DGID: verbs.GID{10: 0xff, 11: 0xff, 12: 10, 15: 2}, HopLimit: 64}})
	note(ah, err)
	ch, err := dev.CreateCompChannel()
	if note(ch, err) {
		cq, err := dev.CreateCQ(verbs.CQConfig{Entries: 9, Channel: ch})
		if note(cq, err) {
			if err := cq.Resize(50); err != nil {
				errs = append(errs, err)
			}
		}
	}
	cq, err := dev.CreateCQ(verbs.CQConfig{Entries: 100})
	if !note(cq, err) {
		return errs
	}
	srq, err := pd.CreateSRQ(verbs.SRQConfig{})
	if note(srq, err) {
		qp, err := pd.CreateQP(verbs.QPConfig{SRQ: srq, SendCQ: cq, RecvCQ: cq})
		note(qp, err)
	}
	for _, typ := range types {
		qp, err := pd.CreateQP(verbs.QPConfig{Type: typ})
		if note(qp, err) && typ == verbs.RC {
			mask := verbs.QPAttrState | verbs.QPAttrPort | verbs.QPAttrPKeyIndex | verbs.QPAttrAccess
			if err := qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 1}, mask); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

// TestEachCommandFails fails each command of a program that makes one object of each kind: nothing
// is left, and every error names the operation and the object.
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
		{"mlx5_0", func() uverbs.Kernel { return inprocess.New(inprocess.Config{}, "mlx5_0") }, []verbs.QPType{verbs.RC, verbs.UC, verbs.UD}},
	} {
		t.Run(m.name, func(t *testing.T) {
			// What the machine does not have fails without a fault, too.
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
							t.Errorf("%v of %s: an error without a name: %v", errno, hit.Name, err)
						}
						found = found || errors.Is(err, errno)
					}
					if !found && len(errs) > lacks {
						t.Errorf("%v of %s: the errors %q do not wrap it", errno, hit.Name, errs)
					}
					if left := k.Left(); len(left) > 0 {
						t.Errorf("%v of %s leaves %q", errno, hit.Name, left)
					}
				}
			}
		})
	}
}
