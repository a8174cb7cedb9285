// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"

	"purerdma/cm/cmtest"
	"purerdma/internal/longtest"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// fakeDevice returns fake kernels with one device, by driver.
var fakeDevice = map[string]func() (k uverbs.Kernel, device string){
	"rxe":  func() (uverbs.Kernel, string) { return uverbstest.New("rxe0"), "rxe0" },
	"mlx5": func() (uverbs.Kernel, string) { return inprocess.New(inprocess.Config{}, "mlx5_0"), "mlx5_0" },
}

// family creates a device with one object of each kind that can be a child of the others, and
// posts a receive that names the memory.
func family(t *testing.T, h *verbs.Host, device string) []io.Closer {
	t.Helper()
	dev := must(h.Open(device))(t)
	pd := must(dev.AllocPD())(t)
	ch := must(dev.CreateCompChannel())(t)
	cq := must(dev.CreateCQ(verbs.CQConfig{Channel: ch, Entries: 16}))(t)
	srq := must(pd.CreateSRQ(verbs.SRQConfig{MaxWR: 4}))(t)
	qp := must(pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq, SRQ: srq}))(t)
	mr := must(pd.Alloc(4096, verbs.LocalWrite))(t)
	if _, err := srq.PostRecv([]verbs.RecvWR{{SGList: []verbs.SGE{mr.SGE()}}}); err != nil {
		t.Fatalf("SRQ.PostRecv: %v", err)
	}
	return []io.Closer{dev, pd, ch, cq, srq, qp, mr}
}

// permutations calls fn with every skip-th order of n numbers.
func permutations(n, skip int, fn func([]int)) {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	count := 0
	var rec func(i int)
	rec = func(i int) {
		if i == n {
			if count++; count%skip == 0 {
				fn(p)
			}
			return
		}
		for j := i; j < n; j++ {
			p[i], p[j] = p[j], p[i]
			rec(i + 1)
			p[i], p[j] = p[j], p[i]
		}
	}
	rec(0)
}

// TestCloseOrders closes a device and its objects in every order. Each Close succeeds, and the
// last one leaves no objects in the kernel.
func TestCloseOrders(t *testing.T) {
	for name, fake := range fakeDevice {
		t.Run(name, func(t *testing.T) {
			kernel, device := fake()
			k := cmtest.New(kernel)
			skip := 37 // a prime, which divides no number of orders that begin alike
			if longtest.Enabled() {
				skip = 1
			}
			permutations(7, skip, func(order []int) {
				all := family(t, k.Host(), device)
				for _, i := range order {
					if err := all[i].Close(); err != nil {
						t.Errorf("order %v: Close of %T = %v, want nil", order, all[i], err)
					}
				}
				if left := k.Left(); len(left) != 0 {
					t.Fatalf("order %v: Left() = %v, want nothing", order, left)
				}
			})
		})
	}
}

// TestClosedParent checks that a closed object with users accepts no new users, and that its
// existing users keep working.
func TestClosedParent(t *testing.T) {
	for name, fake := range fakeDevice {
		t.Run(name, func(t *testing.T) {
			kernel, device := fake()
			k := cmtest.New(kernel)
			all := family(t, k.Host(), device)
			pd, ch, cq, srq, qp := all[1].(*verbs.PD), all[2].(*verbs.CompChannel), all[3].(*verbs.CQ), all[4].(*verbs.SRQ), all[5].(*verbs.QP)
			dev := pd.Device()
			for _, o := range all[:5] {
				if err := o.Close(); err != nil {
					t.Errorf("Close of %T = %v, want nil", o, err)
				}
			}
			_, mrErr := pd.Alloc(64, verbs.LocalWrite)
			_, qpErr := pd.CreateQP(verbs.QPConfig{})
			_, cqErr := dev.CreateCQ(verbs.CQConfig{Channel: ch})
			for what, err := range map[string]error{"Alloc": mrErr, "CreateQP": qpErr, "CreateCQ": cqErr} {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("%s on a closed object = %v, want net.ErrClosed", what, err)
				}
			}
			if err := qp.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrAccess); err != nil {
				t.Errorf("Modify of a QP on closed objects = %v, want nil", err)
			}
			if _, err := cq.Wait(t.Context(), make([]verbs.WC, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Wait of a closed CQ = %v, want net.ErrClosed", err)
			}
			if _, err := srq.Query(); err != nil {
				t.Errorf("Query of a closed SRQ with a QP = %v, want nil", err)
			}
			for _, o := range all[5:] {
				if err := o.Close(); err != nil {
					t.Errorf("Close of %T = %v, want nil", o, err)
				}
			}
			if left := k.Left(); len(left) != 0 {
				t.Errorf("Left() = %v, want nothing", left)
			}
		})
	}
}

// TestFailedDestroyOfClosedParents has the kernel refuse to destroy each closed parent when its
// last user is closed. That Close returns the error, and the next Close tries again.
func TestFailedDestroyOfClosedParents(t *testing.T) {
	for command, parents := range map[string][]int{
		"UVERBS_METHOD_CQ_DESTROY":  {3},
		"UVERBS_METHOD_SRQ_DESTROY": {4},
		"UVERBS_METHOD_PD_DESTROY":  {1, 4, 6},
	} {
		t.Run(command, func(t *testing.T) {
			k := cmtest.New(uverbstest.New("rxe0"))
			all := family(t, k.Host(), "rxe0")
			qp := all[5]
			for _, i := range parents {
				if err := all[i].Close(); err != nil {
					t.Fatalf("Close of %T = %v, want nil", all[i], err)
				}
			}
			refuse := true
			k.OnCommand(func(c cmtest.Command) error {
				if refuse && c.Name == command {
					return syscall.ENOMEM
				}
				return nil
			})
			for range 2 {
				if err := qp.Close(); !errors.Is(err, syscall.ENOMEM) {
					t.Errorf("Close of the last user = %v, want ENOMEM", err)
				}
			}
			refuse = false
			if err := qp.Close(); err != nil {
				t.Errorf("second Close of the last user = %v, want nil", err)
			}
			for i, o := range slices.Backward(all) {
				if err := o.Close(); err != nil {
					t.Errorf("Close of object %d, a %T = %v, want nil", i, o, err)
				}
			}
			if left := k.Left(); len(left) != 0 {
				t.Errorf("Left() = %v, want nothing", left)
			}
		})
	}
}

// TestCloseOfMemoryUnderWindow closes memory before the window that is bound to it. The kernel
// refuses this. Close of the window then deregisters the memory.
func TestCloseOfMemoryUnderWindow(t *testing.T) {
	k := cmtest.New(uverbstest.New("rxe0"))
	dev := must(k.Host().Open("rxe0"))(t)
	pd := must(dev.AllocPD())(t)
	mr := must(pd.Alloc(4096, verbs.LocalWrite|verbs.MWBind))(t)
	window := must(pd.AllocMW(verbs.MWType2))(t)
	bound := true // uverbstest does not keep windows bound
	k.OnCommand(func(c cmtest.Command) error {
		switch c.Name {
		case "UVERBS_METHOD_MR_DESTROY":
			if bound {
				return syscall.EINVAL
			}
		case "UVERBS_METHOD_MW_DESTROY":
			bound = false
		}
		return nil
	})
	if err := mr.Close(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Close of memory under a window = %v, want EINVAL", err)
	}
	mr.Bytes()[0] = 1 // would fault if it were unmapped
	for _, o := range []io.Closer{pd, window, dev} {
		if err := o.Close(); err != nil {
			t.Errorf("Close of %T = %v, want nil", o, err)
		}
	}
	if left := k.Left(); len(left) != 0 {
		t.Errorf("Left() = %v, want nothing", left)
	}
}
