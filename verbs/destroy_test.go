// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/abi"
	"purerdma/cm/cmtest"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// TestFailedDestroyRetry has the kernel fail one DESTROY of each kind. Close returns its error,
// and a second Close destroys the remaining objects.
func TestFailedDestroyRetry(t *testing.T) {
	type closer interface{ Close() error }
	for _, tc := range []struct {
		name           string
		object, method uint16
		times          int
		create         func(*verbs.PD) (closer, error)
	}{
		{"QP", abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY, 1, func(pd *verbs.PD) (closer, error) { return pd.CreateQP(verbs.QPConfig{}) }},
		{"CQ of a QP", abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY, 1, func(pd *verbs.PD) (closer, error) { return pd.CreateQP(verbs.QPConfig{}) }},
		{"both CQs of a QP", abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY, 2, func(pd *verbs.PD) (closer, error) { return pd.CreateQP(verbs.QPConfig{}) }},
		{"CQ", abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY, 1, func(pd *verbs.PD) (closer, error) { return pd.Device().CreateCQ(verbs.CQConfig{}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rt := fakeRoute()
			fail := 0
			rt.fake.Intercept = func(r *uverbs.Request) error {
				if r.Object == tc.object && r.Method == tc.method && fail > 0 {
					fail--
					return syscall.EINVAL
				}
				return nil
			}
			dev, err := rt.h.Open("rxe0")
			if err != nil {
				t.Fatalf("Host.Open: %v", err)
			}
			pd, err := dev.AllocPD()
			if err != nil {
				t.Fatalf("Device.AllocPD: %v", err)
			}
			o, err := tc.create(pd)
			if err != nil {
				t.Fatalf("create: %v", err)
			}
			fail = tc.times
			if err := o.Close(); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("Close() = %v, want EINVAL from DESTROY", err)
			}
			for range 2 {
				if err := o.Close(); err != nil {
					t.Errorf("later Close() = %v, want nil", err)
				}
			}
			if err := errors.Join(pd.Close(), dev.Close()); err != nil {
				t.Errorf("PD.Close and Device.Close: %v", err)
			}
			if n := rt.fake.Opened(); n != 0 {
				t.Errorf("Opened() = %d, want 0", n)
			}
		})
	}
}

// TestFailedDeallocOfClosedPD has the kernel fail to deallocate a closed PD when its last
// object closes. That Close returns the error, and the next Close deallocates the PD.
func TestFailedDeallocOfClosedPD(t *testing.T) {
	for name, create := range map[string]func(*verbs.PD) (io.Closer, error){
		"AH": func(pd *verbs.PD) (io.Closer, error) {
			return pd.CreateAH(verbs.AHAttr{Port: 1, Global: true, GRH: verbs.GlobalRoute{DGID: verbs.GID{10: 0xff, 11: 0xff, 12: 10, 15: 2}}})
		},
		"MR":  func(pd *verbs.PD) (io.Closer, error) { return pd.Alloc(100, verbs.LocalWrite) },
		"MW":  func(pd *verbs.PD) (io.Closer, error) { return pd.AllocMW(verbs.MWType2) },
		"QP":  func(pd *verbs.PD) (io.Closer, error) { return pd.CreateQP(verbs.QPConfig{}) },
		"SRQ": func(pd *verbs.PD) (io.Closer, error) { return pd.CreateSRQ(verbs.SRQConfig{}) },
	} {
		t.Run(name, func(t *testing.T) {
			k := cmtest.New(inprocess.New(inprocess.Config{}, "mlx5_0"))
			dev, err := k.Host().Open("mlx5_0")
			if err != nil {
				t.Fatalf("Host.Open: %v", err)
			}
			pd, err := dev.AllocPD()
			if err != nil {
				t.Fatalf("Device.AllocPD: %v", err)
			}
			o, err := create(pd)
			if err != nil {
				t.Fatalf("create: %v", err)
			}
			if err := errors.Join(pd.Close(), dev.Close()); err != nil {
				t.Fatalf("PD.Close and Device.Close: %v", err)
			}
			refuse := true
			k.OnCommand(func(c cmtest.Command) error {
				if refuse && c.Name == "UVERBS_METHOD_PD_DESTROY" {
					return syscall.ENOMEM
				}
				return nil
			})
			for range 2 {
				if err := o.Close(); !errors.Is(err, syscall.ENOMEM) {
					t.Errorf("Close() of the last object of the PD = %v, want ENOMEM", err)
				}
			}
			refuse = false
			if err := o.Close(); err != nil {
				t.Errorf("later Close() = %v, want nil", err)
			}
			if left := k.Left(); len(left) > 0 {
				t.Errorf("Left() = %q, want nothing", left)
			}
		})
	}
}

// TestReregisterAfterRefusedClose moves memory after its Close was refused. Neither the old nor
// the new PD may count it twice.
func TestReregisterAfterRefusedClose(t *testing.T) {
	k := cmtest.New(inprocess.New(inprocess.Config{}, "mlx5_0"))
	dev, err := k.Host().Open("mlx5_0")
	if err != nil {
		t.Fatalf("Host.Open: %v", err)
	}
	pds := make([]*verbs.PD, 2)
	for i := range pds {
		if pds[i], err = dev.AllocPD(); err != nil {
			t.Fatalf("Device.AllocPD: %v", err)
		}
	}
	mr, err := pds[0].Alloc(100, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("PD.Alloc: %v", err)
	}
	refuse := true
	k.OnCommand(func(c cmtest.Command) error {
		if refuse && (c.Name == "UVERBS_METHOD_MR_DESTROY" || c.Name == "DEREG_MR") {
			return syscall.EBUSY
		}
		return nil
	})
	if err := mr.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Fatalf("Close() = %v, want EBUSY", err)
	}
	if err := mr.Reregister(verbs.MRChange{PD: pds[1]}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Reregister() after a refused Close = %v, want %v", err, net.ErrClosed)
	}
	refuse = false
	if err := errors.Join(mr.Close(), pds[0].Close(), pds[1].Close(), dev.Close()); err != nil {
		t.Errorf("Close of the memory, PDs and device: %v", err)
	}
	if left := k.Left(); len(left) > 0 {
		t.Errorf("Left() = %q, want nothing", left)
	}
}

// TestQueuesNameTheMemlockLimit has the kernel refuse to pin the memory of queues. The error
// must name RLIMIT_MEMLOCK once.
func TestQueuesNameTheMemlockLimit(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		t.Fatalf("unix.Getrlimit: %v", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 65536, Max: old.Max}); err != nil {
		t.Fatalf("unix.Setrlimit: %v", err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old)
	var refuse uint16
	k := mlx5test.New("mlx5_0")
	k.Intercept = func(r *uverbs.Request) error {
		if r.Object != refuse {
			return nil
		}
		switch {
		case r.Object == abi.UVERBS_OBJECT_CQ && r.Method == abi.UVERBS_METHOD_CQ_CREATE,
			r.Object == abi.UVERBS_OBJECT_QP && r.Method == abi.UVERBS_METHOD_QP_CREATE,
			r.Object == abi.UVERBS_OBJECT_SRQ && r.Method == abi.UVERBS_METHOD_SRQ_CREATE:
			return syscall.ENOMEM
		}
		return nil
	}
	_, pd := openPD(t, &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}, "mlx5_0")
	limit := []string{"RLIMIT_MEMLOCK is 65536 bytes", "this process has ", " registered", "prlimit --pid"}
	refuse = abi.UVERBS_OBJECT_CQ
	says(t, second(pd.Device().CreateCQ(verbs.CQConfig{})), syscall.ENOMEM, append(limit, "create CQ on mlx5_0")...)
	err := second(pd.CreateQP(verbs.QPConfig{}))
	says(t, err, syscall.ENOMEM, append(limit, "create QP on mlx5_0: create CQ on mlx5_0")...)
	if n := strings.Count(err.Error(), "RLIMIT_MEMLOCK"); n != 1 {
		t.Errorf("%q names the limit %d times, want 1", err, n)
	}
	refuse = abi.UVERBS_OBJECT_QP
	says(t, second(pd.CreateQP(verbs.QPConfig{})), syscall.ENOMEM, append(limit, "create QP on mlx5_0")...)
	refuse = abi.UVERBS_OBJECT_SRQ
	says(t, second(pd.CreateSRQ(verbs.SRQConfig{})), syscall.ENOMEM, append(limit, "create SRQ on mlx5_0")...)
	refuse = 0
}

// earlyEvents reports a fatal event of each QP before its creation has returned.
type earlyEvents struct {
	*mlx5test.Kernel
	created chan struct{} // receives a value between the event and the return
}

func (k earlyEvents) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	return earlyTransport{t, k}, err
}

type earlyTransport struct {
	uverbs.Transport
	k earlyEvents
}

func (t earlyTransport) Ioctl(req *uverbs.Request) error {
	err := t.Transport.Ioctl(req)
	if err == nil && req.Object == abi.UVERBS_OBJECT_QP && req.Method == abi.UVERBS_METHOD_QP_CREATE {
		t.k.Event(uverbs.EventQPFatal, uverbs.Number(req.Find(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE).Buf))
		t.k.created <- struct{}{}
		<-t.k.created
	}
	return err
}

// TestEventDuringCreateQP reports an event of a QP before CreateQP has returned. The QP of the
// event must be usable.
func TestEventDuringCreateQP(t *testing.T) {
	k := earlyEvents{mlx5test.New("mlx5_0"), make(chan struct{})}
	dev, pd := openPD(t, &verbs.Host{Drivers: []provider.Driver{mlx5.Driver{}}, Kernel: k}, "mlx5_0")
	events, err := dev.AsyncEvents()
	if err != nil {
		t.Fatalf("Device.AsyncEvents: %v", err)
	}
	closer(t, events)
	type taken struct {
		text string
		qp   *verbs.QP
	}
	got := make(chan taken, 1)
	go func() {
		ev, err := events.Next(deadline(t))
		if err != nil {
			t.Errorf("AsyncEvents.Next: %v", err)
		}
		got <- taken{ev.String(), ev.QP}
	}()
	go func() {
		<-k.created
		time.Sleep(20 * time.Millisecond) // for a reader that does not wait for CreateQP
		select {
		case e := <-got:
			t.Errorf("Next returned event %q before CreateQP has returned", e.text)
			got <- e
		default:
		}
		k.created <- struct{}{}
	}()
	qp, err := pd.CreateQP(verbs.QPConfig{})
	if err != nil {
		t.Fatalf("PD.CreateQP: %v", err)
	}
	closer(t, qp)
	if e, want := <-got, "QP_FATAL of "+qp.String(); e.text != want || e.qp != qp {
		t.Errorf("event = %q, want %q", e.text, want)
	}
}
