// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestVMOnDemandOperations runs each operation on memory that is not pinned, at the
// starts of pages (see docs/reference/driver-faults.md). A device without on-demand memory must
// return an error.
func TestVMOnDemandOperations(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		if _, err := r.pd.RegMR(make([]byte, 4096), verbs.OnDemand|verbs.RemoteWrite); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("RegMR with OnDemand and RemoteWrite and without LocalWrite = %v, want EINVAL", err)
		}
		var mrs [2]*verbs.MR
		for i, e := range []*end{l, r} {
			mr, err := e.pd.Alloc(1<<20, everything|verbs.OnDemand)
			if !e.onDemand(t, mr, err) {
				want := errors.ErrUnsupported
				if e.dev.Attr().ODP.Supported {
					want = syscall.EINVAL // the memory is pinned
				}
				if err := e.pd.Advise(verbs.Prefetch, true, e.buf.Slice(0, 4096)); !errors.Is(err, want) {
					t.Errorf("Advise = %v, want %v", err, want)
				}
				return
			}
			mrs[i] = mr
		}
		caps := l.dev.Attr().ODP
		if want := uint32(verbs.ODPSend | verbs.ODPRecv | verbs.ODPWrite | verbs.ODPRead); caps.RC&want != want {
			t.Errorf("ODP capabilities of RC = %#x, want at least %#x", caps.RC, want)
		}
		here, there := mrs[0], mrs[1]
		const n = 1024
		page := 0
		for i, prefetch := range []func() error{
			func() error { return nil },
			func() error { return l.pd.Advise(verbs.Prefetch, true, here.Slice(0, 1<<20)) },
			func() error { return l.pd.Advise(verbs.Prefetch, false, here.Slice(0, 1<<20)) },
			func() error { return l.pd.Advise(verbs.PrefetchWrite, true, here.Slice(0, 1<<20)) },
			func() error { return l.pd.Advise(verbs.PrefetchWrite, false, here.Slice(0, 1<<20)) },
			func() error { return l.pd.Advise(verbs.PrefetchNoFault, true, here.Slice(0, 4096)) },
			func() error { return l.pd.Advise(verbs.PrefetchNoFault, false, here.Slice(0, 4096)) },
		} {
			// The kernel drops the pages that the device has mapped, so that the device must
			// request them again.
			for _, mr := range mrs {
				if err := unix.Madvise(mr.Bytes(), unix.MADV_DONTNEED); err != nil {
					t.Fatalf("unix.Madvise: %v", err)
				}
			}
			if err := prefetch(); err != nil {
				t.Errorf("advice %d: prefetch: %v", i, err)
			}
			at := func() int { page++; return page % 250 * 4096 }
			from, to, back := at(), at(), at()
			data := fill(here.Bytes()[from:from+n], byte(i))
			r.recv(t, verbs.RecvWR{ID: 9, SGList: []verbs.SGE{there.Slice(to, n)}})
			l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{here.Slice(from, n)}})
			l.ok(t, 1)
			r.ok(t, 1)
			if !bytes.Equal(there.Bytes()[to:to+n], data) {
				t.Errorf("round %d: the received message differs", i)
			}
			remote := at()
			l.send(t, verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: there.Addr() + uint64(remote), RKey: there.RKey(), SGList: []verbs.SGE{here.Slice(from, n)}},
				verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: there.Addr() + uint64(remote), RKey: there.RKey(), SGList: []verbs.SGE{here.Slice(back, n)}})
			l.ok(t, 1)
			if !bytes.Equal(there.Bytes()[remote:remote+n], data) || !bytes.Equal(here.Bytes()[back:back+n], data) {
				t.Errorf("round %d: the written or read bytes differ", i)
			}
			word := at()
			binary.NativeEndian.PutUint64(there.Bytes()[word:], 7)
			result := at()
			atomic := verbs.SendWR{ID: 1, Opcode: verbs.OpFetchAdd, Flags: verbs.SendSignaled, CompareAdd: 3, RemoteAddr: there.Addr() + uint64(word), RKey: there.RKey(), SGList: []verbs.SGE{here.Slice(result, 8)}}
			l.send(t, atomic)
			l.ok(t, 1)
			atomic.Opcode, atomic.CompareAdd, atomic.Swap = verbs.OpCompareSwap, 10, 99
			l.send(t, atomic)
			l.ok(t, 1)
			if got, left := binary.NativeEndian.Uint64(here.Bytes()[result:]), binary.NativeEndian.Uint64(there.Bytes()[word:]); got != 10 || left != 99 {
				t.Errorf("round %d: the last atomic returned %d, and memory = %d, want 10 and 99", i, got, left)
			}
		}
		if caps.Implicit {
			t.Error("the device supports ODP of the whole address space, which has no test")
		}
	})
}

// TestVMOnDemandNewer runs FLUSH and ATOMIC_WRITE on memory that is not pinned. A device with
// such memory has both operations.
func TestVMOnDemandNewer(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		access := everything
		if expects(t, flushing) {
			access |= verbs.FlushGlobal
		}
		mr, err := r.pd.Alloc(1<<16, access|verbs.OnDemand)
		if !r.onDemand(t, mr, err) {
			return
		}
		modify(t, r.qp, verbs.QPAttr{Access: access}, verbs.QPAttrAccess)
		for page := range 8 {
			value := binary.NativeEndian.AppendUint64(nil, uint64(page)<<40|77)
			remote := mr.Addr() + uint64(page)*4096
			if wc := l.batch(t, func(b *verbs.Batch) {
				b.Add(&verbs.SendWR{ID: 1, Opcode: verbs.OpAtomicWrite, RemoteAddr: remote, RKey: mr.RKey(), InlineData: value})
				b.Add(signaled(verbs.SendWR{Opcode: verbs.OpFlush, RemoteAddr: remote, RKey: mr.RKey(), Flush: verbs.Flush{Length: 8, Type: verbs.ToGlobal, Level: verbs.FlushRange}}))
			}); wc.Err() != nil || !bytes.Equal(mr.Bytes()[page*4096:][:8], value) {
				t.Fatalf("page %d: completion = %+v with memory %x, want success and the value", page, wc, mr.Bytes()[page*4096:][:8])
			}
			l.send(t, verbs.SendWR{ID: 4, Opcode: verbs.OpFlush, Flags: verbs.SendSignaled, RemoteAddr: remote, RKey: mr.RKey(),
				Flush: verbs.Flush{Type: verbs.ToGlobal, Level: verbs.FlushMR}})
			l.ok(t, 1)
		}
	})
}

// TestVMOnDemandDatagrams sends datagrams from memory that is not pinned.
func TestVMOnDemandDatagrams(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.udPair(t)
		mr, err := l.pd.Alloc(1<<16, verbs.LocalWrite|verbs.OnDemand)
		if !l.onDemand(t, mr, err) {
			return
		}
		there := l.ah(t, l.to(r.gid))
		const n = 1000
		for page := range 8 {
			data := fill(mr.Bytes()[page*4096:][:n], byte(page))
			r.recv(t, verbs.RecvWR{ID: 7, SGList: []verbs.SGE{r.buf.Slice(0, 4096)}})
			l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.Slice(page*4096, n)}, AH: there, RemoteQPN: r.qp.Num(), RemoteQKey: qkey})
			l.ok(t, 1)
			if wc := r.ok(t, 1)[7]; wc.ByteLen != verbs.GRHLen+n || !bytes.Equal(r.buf.Bytes()[verbs.GRHLen:][:n], data) {
				t.Errorf("page %d: completion = %+v, want the same length, or the bytes differ", page, wc)
			}
		}
	})
}

// TestVMOnDemandHuge writes to huge pages that are not pinned.
func TestVMOnDemandHuge(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		vmtest.SetHugePages(t, 4)
		l, r := rt.pair(t, verbs.QPCap{})
		mr, err := r.pd.AllocHuge(4<<20, everything|verbs.OnDemand)
		if !r.onDemand(t, mr, err) {
			return
		}
		const n = 1024
		for i, page := range []int{0, 1, 300, 511, 512, 1023} {
			data := fill(l.buf.Bytes()[:n], byte(i))
			remote := mr.Addr() + uint64(page)*4096
			l.send(t, verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: remote, RKey: mr.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, n)}},
				verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: remote, RKey: mr.RKey(), SGList: []verbs.SGE{l.buf.Slice(4096, n)}})
			l.ok(t, 1)
			if !bytes.Equal(mr.Bytes()[page*4096:][:n], data) || !bytes.Equal(l.buf.Bytes()[4096:][:n], data) {
				t.Errorf("page %d: the written or read bytes differ", page)
			}
		}
	})
}
