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

// onDemand checks the outcome of asking for on-demand memory, and reports whether the test
// can use it. A device is to return memory, or to refuse. The software ConnectX returns
// memory, because Linux registers dma-bufs by the same means, but no transport may use it.
func (e *end) onDemand(t *testing.T, mr *verbs.MR, err error) bool {
	t.Helper()
	usable, odp := expects(t, onDemandMemory), e.dev.Attr().ODP
	if !usable && !odp.Supported {
		if err == nil || !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("on-demand memory of a device without: %v", err)
		}
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	closer(t, mr)
	if any := odp.RC|odp.UC|odp.UD|odp.XRC != 0; any != usable {
		t.Errorf("%s has on-demand memory for transports: %+v, want %v", e.dev.Name(), odp, usable)
	}
	return usable
}

// TestVMOnDemand uses memory that is not pinned, where the device can.
func TestVMOnDemand(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		mr, err := r.pd.Alloc(1<<20, everything|verbs.OnDemand)
		if !r.onDemand(t, mr, err) {
			return
		}
		if err := r.pd.Advise(verbs.PrefetchWrite, true, mr.Slice(0, 8192)); err != nil {
			t.Errorf("Advise: %v", err)
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
		// What is not prefetched comes in with a fault.
		for _, page := range []int{0, 1, 122, 255} {
			if wrong := exchange(page*4096, 1024); wrong != "" {
				t.Errorf("page %d: %s differs", page, wrong)
			}
		}
		// rxe of Linux 7.3 loses the offset in a page: bytes that do not start a page
		// land at its start, and on-demand memory of rxe is not to be trusted.
		if wrong := exchange(4096+1024, 1024); wrong != "" {
			t.Logf("within a page: %s differs", wrong)
		}
		if wrong := exchange(8192, 30000); wrong != "" {
			t.Logf("many packets: %s differs", wrong)
		}
	})
}

// TestVMReregister moves memory to another PD and takes rights away, where the
// device can.
func TestVMReregister(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		other := allocPD(t, r.dev)
		mr, err := other.Alloc(4096, everything)
		if err != nil {
			t.Fatal(err)
		}
		closer(t, mr)
		err = mr.Reregister(verbs.MRChange{PD: r.pd})
		if !expects(t, reregistering) {
			if !errors.Is(err, errors.ErrUnsupported) || mr.PD() != other {
				t.Errorf("a device that is not to reregister memory: %v, PD %p, it was %p", err, mr.PD(), other)
			}
			return
		}
		if err != nil || mr.PD() != r.pd {
			t.Fatal(err)
		}
		write := verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: mr.Addr(), RKey: mr.RKey(), InlineData: []byte("moved")}
		l.send(t, write)
		if l.ok(t, 1); string(mr.Bytes()[:5]) != "moved" {
			t.Errorf("%q", mr.Bytes()[:5])
		}
		if err := other.Close(); err != nil {
			t.Errorf("Close of the old PD: %v", err)
		}
		access := verbs.LocalWrite
		if err := mr.Reregister(verbs.MRChange{Access: &access}); err != nil || mr.Access() != access {
			t.Fatal(err)
		}
		write.RKey = mr.RKey()
		l.send(t, write)
		if wc := l.collect(t, 1)[1]; wc.Status != verbs.WCRemAccessErr {
			t.Errorf("write without the right: %v", wc.Status)
		}
		access = verbs.RemoteWrite
		if err := mr.Reregister(verbs.MRChange{Access: &access}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("RemoteWrite without LocalWrite: %v", err)
		}
	})
}

// setHugePages has the administrator set huge pages aside, until the test ends.
func setHugePages(t *testing.T, n int) {
	t.Helper()
	const setting = "/proc/sys/vm/nr_hugepages"
	old, err := os.ReadFile(setting)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.WriteFile(setting, old, 0) })
	if err := os.WriteFile(setting, fmt.Append(nil, n), 0); err != nil {
		t.Fatal(err)
	}
}

func TestVMHugePages(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		setHugePages(t, 0)
		l, r := rt.pair(t, verbs.QPCap{})
		if _, err := r.pd.AllocHuge(1<<20, everything); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("AllocHuge where there are none: %v", err)
		}
		setHugePages(t, 4)
		mr, err := r.pd.AllocHuge(3<<20, everything)
		if err != nil {
			t.Fatal(err)
		}
		closer(t, mr)
		if mr.Len() != 3<<20 || mr.Addr()%(2<<20) != 0 {
			t.Errorf("%d bytes at %#x", mr.Len(), mr.Addr())
		}
		l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: mr.Addr() + 2<<20 - 3, RKey: mr.RKey(), InlineData: []byte("across")})
		if l.ok(t, 1); string(mr.Bytes()[2<<20-3:2<<20+3]) != "across" {
			t.Errorf("%q", mr.Bytes()[2<<20-3:2<<20+3])
		}
	})
}

func TestVMPKey(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		dev := openDevice(t, rt.h, rt.b.Device)
		if key, err := dev.PKey(1, 0); key != 0xffff || err != nil {
			t.Errorf("%#x, %v", key, err)
		}
		if _, err := dev.PKey(1, 5000); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("entry that is not there: %v", err)
		}
		if _, err := dev.PKey(9, 0); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("port that is not there: %v", err)
		}
		if _, err := dev.PKey(1, -1); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("index -1: %v", err)
		}
	})
}

// TestVMNoDMABuf: no software device takes another device's memory.
func TestVMNoDMABuf(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		_, pd := openPD(t, rt.h, rt.b.Device)
		f, err := os.Open(os.DevNull) // not one, if the device looked
		if err != nil {
			t.Fatal(err)
		}
		closer(t, f)
		if mr, err := pd.RegDMABuf(int(f.Fd()), 0, 4096, 0, verbs.LocalWrite); err == nil {
			mr.Close()
			t.Error("/dev/null was registered as a dma-buf")
		} else if vmtest.Driver() != "mlx5" && !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	})
}
