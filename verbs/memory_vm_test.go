// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// onDemand checks the result of a registration of on-demand memory, and reports whether the
// test can use the memory. The device must return memory or an error. The software ConnectX
// returns memory, because Linux registers dma-bufs in the same way. However, no transport may
// use this memory.
func (e *end) onDemand(t *testing.T, mr *verbs.MR, err error) bool {
	t.Helper()
	usable, odp := expects(t, onDemandMemory), e.dev.Attr().ODP
	if !usable && !odp.Supported {
		if err == nil || !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("registration of on-demand memory on a device without it = %v, want ErrUnsupported or EINVAL", err)
		}
		return false
	}
	if err != nil {
		t.Fatalf("registration of on-demand memory: %v", err)
	}
	closer(t, mr)
	if any := odp.RC|odp.UC|odp.UD|odp.XRC != 0; any != usable {
		t.Errorf("on-demand capabilities of %s = %+v, want some: %v", e.dev.Name(), odp, usable)
	}
	return usable
}

// TestVMOnDemand uses memory that is not pinned, if the device supports this.
func TestVMOnDemand(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		mr, err := r.pd.Alloc(1<<20, everything|verbs.OnDemand)
		if !r.onDemand(t, mr, err) {
			return
		}
		if err := r.pd.Advise(verbs.PrefetchWrite, true, mr.Slice(0, 8192)); err != nil {
			t.Errorf("PD.Advise: %v", err)
		}
		fill(l.buf.Bytes(), 9)
		exchange := func(off, n int) string {
			remote := mr.Addr() + uint64(off)
			l.send(t,
				verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: remote, RKey: mr.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, n)}},
				verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: remote, RKey: mr.RKey(), SGList: []verbs.SGE{l.buf.Slice(30000, n)}},
			)
			l.ok(t, 1)
			for i := range n {
				switch {
				case mr.Bytes()[off+i] != l.buf.Bytes()[i]:
					return fmt.Sprintf("written byte %d", i)
				case l.buf.Bytes()[30000+i] != l.buf.Bytes()[i]:
					return fmt.Sprintf("read byte %d", i)
				}
			}
			return ""
		}
		// Pages that were not prefetched are loaded by a page fault.
		for _, page := range []int{0, 1, 122, 255} {
			if wrong := exchange(page*4096, 1024); wrong != "" {
				t.Errorf("page %d: %s memory differs", page, wrong)
			}
		}
		// rxe of Linux 7.3 loses the offset in a page. Bytes that do not start a page are
		// stored at its start, so on-demand memory of rxe is not reliable.
		if wrong := exchange(4096+1024, 1024); wrong != "" {
			t.Logf("within a page: %s memory differs", wrong)
		}
		if wrong := exchange(8192, 30000); wrong != "" {
			t.Logf("many packets: %s memory differs", wrong)
		}
	})
}

// TestVMReregister moves memory to another PD and removes access rights, if the device supports
// this.
func TestVMReregister(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		other := allocPD(t, r.dev)
		mr, err := other.Alloc(4096, everything)
		if err != nil {
			t.Fatalf("PD.Alloc: %v", err)
		}
		closer(t, mr)
		err = mr.Reregister(verbs.MRChange{PD: r.pd})
		if !expects(t, reregistering) {
			if !errors.Is(err, errors.ErrUnsupported) || mr.PD() != other {
				t.Errorf("Reregister on a device without support = %v with PD %p, want ErrUnsupported and PD %p", err, mr.PD(), other)
			}
			return
		}
		if err != nil || mr.PD() != r.pd {
			t.Fatalf("Reregister = %v with PD %p, want nil and PD %p", err, mr.PD(), r.pd)
		}
		write := verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: mr.Addr(), RKey: mr.RKey(), InlineData: []byte("moved")}
		l.send(t, write)
		if l.ok(t, 1); string(mr.Bytes()[:5]) != "moved" {
			t.Errorf("memory = %q, want \"moved\"", mr.Bytes()[:5])
		}
		if err := other.Close(); err != nil {
			t.Errorf("Close of the old PD: %v", err)
		}
		access := verbs.LocalWrite
		if err := mr.Reregister(verbs.MRChange{Access: &access}); err != nil || mr.Access() != access {
			t.Fatalf("Reregister = %v with access %v, want nil and %v", err, mr.Access(), access)
		}
		write.RKey = mr.RKey()
		l.send(t, write)
		if wc := l.collect(t, 1)[1]; wc.Status != verbs.WCRemAccessErr {
			t.Errorf("status of a WRITE without the right = %v, want WCRemAccessErr", wc.Status)
		}
		access = verbs.RemoteWrite
		if err := mr.Reregister(verbs.MRChange{Access: &access}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Reregister with RemoteWrite and without LocalWrite = %v, want EINVAL", err)
		}
	})
}

func TestVMHugePages(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		vmtest.SetHugePages(t, 0)
		l, r := rt.pair(t, verbs.QPCap{})
		if _, err := r.pd.AllocHuge(1<<20, everything); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("AllocHuge without huge pages = %v, want ENOMEM", err)
		}
		vmtest.SetHugePages(t, 4)
		mr, err := r.pd.AllocHuge(3<<20, everything)
		if err != nil {
			t.Fatalf("PD.AllocHuge: %v", err)
		}
		closer(t, mr)
		if mr.Len() != 3<<20 || mr.Addr()%(2<<20) != 0 {
			t.Errorf("AllocHuge = %d bytes at %#x, want 3 MiB at a huge page", mr.Len(), mr.Addr())
		}
		l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: mr.Addr() + 2<<20 - 3, RKey: mr.RKey(), InlineData: []byte("across")})
		if l.written(t, mr); string(mr.Bytes()[2<<20-3:2<<20+3]) != "across" {
			t.Errorf("memory = %q, want \"across\"", mr.Bytes()[2<<20-3:2<<20+3])
		}
	})
}

func TestVMPKey(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		dev := openDevice(t, rt.h, rt.b.Device)
		if key, err := dev.PKey(1, 0); key != 0xffff || err != nil {
			t.Errorf("Device.PKey(1, 0) = %#x, %v, want 0xffff, nil", key, err)
		}
		if _, err := dev.PKey(1, 5000); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("PKey(1, 5000) = %v, want ErrNotExist", err)
		}
		if _, err := dev.PKey(9, 0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("PKey(9, 0) = %v, want ErrNotExist", err)
		}
		if _, err := dev.PKey(1, -1); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("PKey(1, -1) = %v, want EINVAL", err)
		}
	})
}

// registersDMABufs reports whether the driver supports dma-buf memory.
func registersDMABufs() bool { return vmtest.Driver() == "mlx5" || vmtest.Driver() == "bnxt_re" }

// TestVMNoDMABuf checks that no software device registers a dma-buf.
func TestVMNoDMABuf(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		_, pd := openPD(t, rt.h, rt.b.Device)
		f, err := os.Open(os.DevNull) // not a dma-buf, which a device that supports them must detect
		if err != nil {
			t.Fatalf("os.Open(os.DevNull): %v", err)
		}
		closer(t, f)
		if mr, err := pd.RegDMABuf(int(f.Fd()), 0, 4096, 0, verbs.LocalWrite); err == nil {
			mr.Close()
			t.Error("RegDMABuf of /dev/null succeeded")
		} else if !registersDMABufs() && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("RegDMABuf = %v, want ErrUnsupported", err)
		}
	})
}
