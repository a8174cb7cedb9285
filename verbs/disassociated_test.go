// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/provider/rxe"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
)

// goneKernel is a kernel whose devices fail commands with EIO, and whose event files do not
// report the removal.
type goneKernel struct {
	uverbs.Kernel
	gone  atomic.Bool // every command, except commands that destroy objects
	ports atomic.Bool // QUERY_PORT
}

func (k *goneKernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	return goneTransport{t, k}, err
}

type goneTransport struct {
	uverbs.Transport
	k *goneKernel
}

func (t goneTransport) Ioctl(req *uverbs.Request) error {
	queryPort := req.Object == abi.UVERBS_OBJECT_DEVICE && req.Method == abi.UVERBS_METHOD_QUERY_PORT
	if t.k.gone.Load() && !strings.HasSuffix(req.Name(), "_DESTROY") || t.k.ports.Load() && queryPort {
		return syscall.EIO
	}
	return t.Transport.Ioctl(req)
}

// TestFirstCallAfterRemoval checks the first call that gets EIO, which Linux returns after it
// has removed a device. The call returns a DeviceRemovedError, before an event file reports the
// removal.
func TestFirstCallAfterRemoval(t *testing.T) {
	for name, kernel := range map[string]uverbs.Kernel{"rxe0": uverbstest.New("rxe0"), "mlx5_0": inprocess.New(inprocess.Config{}, "mlx5_0")} {
		t.Run(name, func(t *testing.T) {
			k := &goneKernel{Kernel: kernel}
			host := &Host{Drivers: []provider.Driver{rxe.Driver{}, mlx5.Driver{}}, Kernel: k}
			dev, err := host.Open(name)
			if err != nil {
				t.Fatalf("Host.Open: %v", err)
			}
			pd, err := dev.AllocPD()
			if err != nil {
				t.Fatalf("Device.AllocPD: %v", err)
			}
			qp, err := pd.CreateQP(QPConfig{})
			if err != nil {
				t.Fatalf("PD.CreateQP: %v", err)
			}
			var removed *DeviceRemovedError
			k.ports.Store(true)
			if _, err := dev.QueryPort(1); !errors.Is(err, syscall.EIO) || errors.As(err, &removed) {
				t.Errorf("QueryPort of a broken port = %v, want EIO", err)
			}
			k.gone.Store(true)
			if _, err := pd.Alloc(4096, LocalWrite); !errors.As(err, &removed) || removed.Device != name {
				t.Errorf("Alloc = %v, want a DeviceRemovedError of %s", err, name)
			}
			select {
			case <-dev.Done():
			default:
				t.Error("Done of the removed device is not closed")
			}
			for _, c := range []interface{ Close() error }{qp, pd, dev} {
				if err := c.Close(); err != nil {
					t.Fatalf("Close of %T = %v, want nil", c, err)
				}
			}
		})
	}
}

// zeroKernel is a kernel with one device whose mappings contain zeros, as after a removal. The
// command that destroys a CQ fails because the device was removed.
type zeroKernel struct {
	uverbs.Kernel
	dev *Device
}

func (k *zeroKernel) Open(info uverbs.DeviceInfo) (uverbs.Transport, error) {
	t, err := k.Kernel.Open(info)
	return zeroTransport{t, k}, err
}

type zeroTransport struct {
	uverbs.Transport
	k *zeroKernel
}

func (t zeroTransport) Mmap(offset int64, length int) ([]byte, error) {
	b, err := t.Transport.Mmap(offset, length)
	clear(b)
	return b, err
}

func (t zeroTransport) Ioctl(req *uverbs.Request) error {
	if req.Object == abi.UVERBS_OBJECT_CQ && req.Method == abi.UVERBS_METHOD_CQ_DESTROY {
		go t.k.dev.remove() // waits for this command
		<-t.k.dev.Done()
	}
	return t.Transport.Ioctl(req)
}

// TestCreateDuringRemoval creates a CQ whose ring the removal replaces with zeros before the
// provider has read it. The error must be the removal, not an error of the ring.
func TestCreateDuringRemoval(t *testing.T) {
	k := &zeroKernel{Kernel: uverbstest.New("rxe0")}
	host := &Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: k}
	dev, err := host.Open("rxe0")
	if err != nil {
		t.Fatalf("Host.Open: %v", err)
	}
	k.dev = dev
	var removed *DeviceRemovedError
	if cq, err := dev.CreateCQ(CQConfig{}); !errors.As(err, &removed) {
		t.Errorf("CreateCQ = %v, %v, want a DeviceRemovedError", cq, err)
	}
	if err := dev.Close(); err != nil {
		t.Errorf("Device.Close: %v", err)
	}
}

// TestCloseAfterRemoval closes all objects of a removed device, whichever of them detected the
// removal first. Linux still executes commands that destroy an object.
func TestCloseAfterRemoval(t *testing.T) {
	type machine interface {
		uverbs.Kernel
		Remove(string) bool
		Opened() int
	}
	for name, kernel := range map[string]func() machine{
		"rxe0":   func() machine { return uverbstest.New("rxe0") },
		"mlx5_0": func() machine { return inprocess.New(inprocess.Config{}, "mlx5_0") },
	} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				k := kernel()
				host := &Host{Drivers: []provider.Driver{rxe.Driver{}, mlx5.Driver{}}, Kernel: k}
				dev, err := host.Open(name)
				if err != nil {
					t.Fatalf("Host.Open: %v", err)
				}
				pd, err := dev.AllocPD()
				if err != nil {
					t.Fatalf("Device.AllocPD: %v", err)
				}
				mr, err := pd.Alloc(4096, LocalWrite)
				if err != nil {
					t.Fatalf("PD.Alloc: %v", err)
				}
				qp, err := pd.CreateQP(QPConfig{})
				if err != nil {
					t.Fatalf("PD.CreateQP: %v", err)
				}
				k.Remove(name)
				for _, c := range []interface{ Close() error }{qp, mr, pd, dev} {
					if err := c.Close(); err != nil {
						t.Fatalf("Close of %T = %v, want nil", c, err)
					}
				}
				if n := k.Opened(); n != 0 {
					t.Fatalf("Opened() = %d, want 0", n)
				}
			}
		})
	}
}
