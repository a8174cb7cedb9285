// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"purerdma/abi"
	"purerdma/internal/hwreport"
	"purerdma/verbs"
)

// memoryChecks use memory regions and windows.
var memoryChecks = []Check{
	{ID: "regions", Title: "memory regions of many sizes, and many regions", do: checkRegions},
	{ID: "go-memory", Title: "memory of the Go heap while the collector runs", do: checkGoMemory},
	{ID: "old-keys", recorded: true, Title: "keys of closed regions", needs: needsReliableErrors, do: checkOldKeys},
	{ID: "rights", recorded: true, Title: "rights of memory regions, and regions of another PD", needs: needsReliableErrors, do: checkRights},
	{ID: "window1", recorded: true, Title: "memory windows of type 1", needs: needsWindow1, do: checkWindow1},
	{ID: "window2", recorded: true, Title: "memory windows of type 2, with invalidation", needs: needsWindow2, do: checkWindow2},
	{ID: "send-invalidate", recorded: true, Title: "invalidation by a message", needs: needsSendInvalidate, do: checkSendInvalidate},
	{ID: "on-demand", Title: "memory that is paged in on demand", needs: needsOnDemand, do: checkOnDemand},
}

// useRegion writes from a region of the near end to the far end and reads it back.
func (l *link) useRegion(what string, mr *verbs.MR, seed int) {
	size := min(mr.Len(), 4096)
	for _, off := range []int{0, mr.Len() - size} {
		b := mr.Bytes()[off:][:size]
		fillPattern(b, seed+off)
		l.send(verbs.SendWR{Opcode: verbs.OpWrite, SGList: []verbs.SGE{mr.Slice(off, size)}, RemoteAddr: l.memory.Addr, RKey: l.memory.RKey})
		clear(b)
		l.send(verbs.SendWR{Opcode: verbs.OpRead, SGList: []verbs.SGE{mr.Slice(off, size)}, RemoteAddr: l.memory.Addr, RKey: l.memory.RKey})
		l.same(what, b, pattern(seed+off, size))
	}
}

func checkRegions(t *trial) {
	l := t.link(Config{})
	page := os.Getpagesize()
	for i, size := range []int{1, 7, 64, page - 1, page, page + 1, 3*page + 5, 1 << 20, 1<<24 + 1, 1 << 26} {
		mr, err := l.pd.Alloc(size, rights(t.dev))
		if errors.Is(err, syscall.ENOMEM) {
			if size <= page {
				t.end(hwreport.Unknown, fmt.Sprintf("no memory for a region of %d bytes: %v (see RLIMIT_MEMLOCK)", size, err))
			}
			t.note("no memory for a region of %d bytes: %v (see RLIMIT_MEMLOCK)", size, err)
			break
		}
		t.must(fmt.Sprintf("register %d bytes", size), err)
		l.useRegion(fmt.Sprintf("region of %d bytes", size), mr, i)
		t.must("close a region", mr.Close())
	}
	var all []*verbs.MR
	for i := range min(500, t.attr.MaxMR/2) {
		mr, err := l.pd.Alloc(page, rights(t.dev))
		if errors.Is(err, syscall.ENOMEM) {
			t.note("no memory for %d regions: %v (see RLIMIT_MEMLOCK)", i+1, err)
			break
		}
		t.must(fmt.Sprintf("register region %d", i), err)
		t.later(mr.Close)
		all = append(all, mr)
	}
	for i, mr := range all {
		if i%16 == 0 {
			l.useRegion(fmt.Sprintf("region %d of %d", i, len(all)), mr, i)
		}
	}
	t.note("%d regions", len(all))
	mr, err := l.pd.AllocHuge(1<<21, rights(t.dev))
	if err != nil {
		t.note("no huge pages: %v", err)
		return
	}
	l.useRegion("huge page", mr, 1)
	t.must("close a region of huge pages", mr.Close())
}

func checkGoMemory(t *trial) {
	l := t.link(Config{})
	for i := range 60 {
		mr, err := l.pd.RegMR(make([]byte, 1+i*997), rights(t.dev))
		t.must("register memory of the Go heap", err)
		runtime.GC()
		l.useRegion("memory of the Go heap", mr, i)
		t.must("close a region", mr.Close())
	}
}

func checkOldKeys(t *trial) {
	l := t.link(Config{AckTimeout: 0})
	mr, err := l.pd.Alloc(4096, rights(t.dev))
	t.must("register", err)
	old := mr.Remote()
	wr := PlainWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: old.Addr, RKey: old.RKey}
	l.farPost(wr, piece{0, 8})
	l.succeeded("WRITE to an open region", l.farWait(true, 1))
	t.must("close the region", mr.Close())
	l.farPost(wr, piece{0, 8})
	l.wantStatus("WRITE to a closed region", l.farWait(true, 1)[0], verbs.WCRemAccessErr)
}

func needsWindow1(t *trial) string {
	if !t.features.MWType1 {
		return "the device has no windows of type 1"
	}
	return ""
}

func needsWindow2(t *trial) string {
	if !t.features.MWType2 || !t.features.LocalInv {
		return "the device has no windows of type 2"
	}
	return ""
}

func needsSendInvalidate(t *trial) string {
	if !t.features.MWType2 || !t.features.SendInvMW {
		return "the device has no invalidation of windows by messages"
	}
	return ""
}

// window is a bound window of the near end's memory.
type window struct {
	l  *link
	mw *verbs.MW
}

const (
	windowOff, windowLen = 1000, 500
)

// bind binds a new window to a part of the near memory.
func (l *link) bind(typ verbs.MWType) *window {
	mw, err := l.pd.AllocMW(typ)
	l.t.must("allocate a window", err)
	l.t.later(mw.Close)
	l.send(mw.Bind(l.mr, windowOff, windowLen, verbs.RemoteWrite|verbs.RemoteRead))
	return &window{l, mw}
}

// write has the far end write through the window, and returns the completion.
func (w *window) write(seed, off, size int) verbs.WC {
	l := w.l
	l.store(0, pattern(seed, size))
	l.farPost(PlainWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: l.mr.Addr() + windowOff + uint64(off), RKey: w.mw.RKey()}, piece{0, size})
	return l.farWait(true, 1)[0]
}

// works checks that the window admits WRITEs inside it, up to its bounds.
func (w *window) works() {
	near := w.l.mr.Bytes()
	copy(near, guards(4096))
	w.l.succeeded("WRITE through a window", []verbs.WC{w.write(1, 0, windowLen)})
	// The data is in the near memory when a message behind it is received.
	w.l.t.must("post a receive", w.l.recv(0, nil))
	w.l.farPost(PlainWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}, piece{})
	w.l.succeeded("SEND behind a WRITE", w.l.farWait(true, 1))
	w.l.received(1)
	w.l.same("WRITE through a window", near[windowOff:][:windowLen], pattern(1, windowLen))
	w.l.same("memory before the window", near[:windowOff], guards(windowOff))
	w.l.same("memory behind the window", near[windowOff+windowLen:][:1000], guards(1000))
}

// refuses checks that the window refuses a WRITE, which ends the connection.
func (w *window) refuses(what string, off, size int) {
	near := w.l.mr.Bytes()
	copy(near, guards(4096))
	w.l.wantStatus(what, w.write(2, off, size), verbs.WCRemAccessErr)
	w.l.same(what, near[:4096], guards(4096))
}

func checkWindow1(t *trial) {
	w := t.link(Config{}).bind(verbs.MWType1)
	w.works()
	w.l.send(w.mw.Bind(w.l.mr, windowOff, 0, 0))
	w.refuses("WRITE through an unbound window", 0, 8)
	if !t.knownFault(abi.RDMA_DRIVER_RXE, "a memory window ignores its own bounds") {
		t.link(Config{}).bind(verbs.MWType1).refuses("WRITE beyond a window", windowLen-4, 8)
	}
}

func checkWindow2(t *trial) {
	w := t.link(Config{}).bind(verbs.MWType2)
	w.works()
	w.l.send(verbs.SendWR{Opcode: verbs.OpLocalInv, InvalidateRKey: w.mw.RKey()})
	w.refuses("WRITE through an invalidated window", 0, 8)
}

func checkSendInvalidate(t *trial) {
	l := t.link(Config{})
	w := l.bind(verbs.MWType2)
	w.works()
	t.must("post a receive", l.recv(1, []piece{{0, 8}}))
	l.farPost(PlainWR{Opcode: verbs.OpSendInv, Flags: verbs.SendSignaled, Invalidate: w.mw.RKey()}, piece{0, 8})
	wc := l.received(1)[0]
	if t.features.ReportsInv && (wc.Flags&verbs.WCWithInv == 0 || wc.InvalidatedRKey != w.mw.RKey()) {
		t.fail("receive of a SEND with invalidate: completion %+v, want key %#x", wc, w.mw.RKey())
	}
	l.succeeded("SEND with invalidate", l.farWait(true, 1))
	w.refuses("WRITE through an invalidated window", 0, 8)
}

func needsOnDemand(t *trial) string {
	if o := t.attr.ODP; !o.Supported || o.RC&verbs.ODPWrite == 0 || o.RC&verbs.ODPRead == 0 {
		return "the device has no on-demand paging for WRITE and READ"
	}
	return ""
}

func checkOnDemand(t *trial) {
	if t.knownFault(abi.RDMA_DRIVER_RXE, "on-demand memory loses the offset in a page") {
		t.skip("rxe writes on-demand memory to the wrong place")
	}
	l := t.link(Config{})
	mr, err := l.pd.Alloc(1<<24, rights(t.dev)&^verbs.MWBind|verbs.OnDemand)
	t.must("register on demand", err)
	l.useRegion("memory on demand", mr, 3)
	t.must("close the region", mr.Close())
}
