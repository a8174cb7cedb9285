// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"purerdma/cm"
	"purerdma/internal/udmabuf"
	"purerdma/verbs"
)

// hostChecks use the library in limited environments of the host, and memory of another device.
var hostChecks = []Check{
	{ID: "raw-packets", Title: "Ethernet frames of a raw packet QP", needs: needsFrames, do: checkFrames},
	{ID: "raw-receive", Title: "Ethernet frames received by a raw packet QP with a flow rule", needs: needsFrames, do: checkRawReceive},
	{ID: "raw-offloads", Title: "checksums and segments of TCP by the device", needs: needsOffloads, do: checkOffloads},
	{ID: "dma-buf", Title: "messages in memory of a dma-buf", needs: needsKernel, do: checkDMABuf},
	{ID: "memlock", Local: true, Title: "registration beyond RLIMIT_MEMLOCK", needs: needsKernel, do: checkMemlock},
	{ID: "network-namespace", Local: true, Title: "the device from an empty network namespace", needs: needsKernel, do: checkNamespace},
	{ID: "no-sysfs", Local: true, Title: "the device from a container without /sys", needs: needsKernel, do: checkNoSysfs},
}

// dmaBufSize is the size of the memory of a dma-buf.
const dmaBufSize = 64 << 10

func checkDMABuf(t *trial) {
	b, err := udmabuf.New(dmaBufSize)
	if err != nil {
		t.skip("there is no dma-buf: %v", err)
	}
	t.later(b.Close)
	l := t.link(Config{NoScatter: true}) // a poll cannot copy data into a dma-buf
	mr, err := l.pd.RegDMABuf(int(b.File.Fd()), 0, dmaBufSize, 1<<40, rights(t.dev)&^verbs.MWBind)
	if errors.Is(err, errors.ErrUnsupported) {
		t.skip("the device does not register dma-bufs: %v", err)
	}
	t.must("register a dma-buf", err)
	t.later(mr.Close)
	const to = dmaBufSize / 2
	for i, size := range []int{1, 31, 32, 33, 64, 65, 4096, 4097, 30000} {
		what := fmt.Sprintf("of %d bytes of a dma-buf", size)
		fillPattern(b.Mem[:size], i)
		wr := l.write(piece{}, 0)
		wr.SGList = []verbs.SGE{mr.Slice(0, size)}
		l.send(wr)
		l.settle()
		l.same("WRITE "+what, l.load(0, size), b.Mem[:size])
		copy(b.Mem[to:], guards(size+1))
		wr.Opcode, wr.SGList = verbs.OpRead, []verbs.SGE{mr.Slice(to, size)}
		l.send(wr)
		l.same("READ "+what, b.Mem[to:][:size+1], append(pattern(i, size), guard))
		copy(b.Mem[to:], guards(size+1))
		_, err := l.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{mr.Slice(to, size)}}})
		t.must("post a receive", err)
		l.farPost(PlainWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}, piece{0, size})
		l.succeeded("SEND", l.farWait(true, 1))
		l.received(1)
		l.same("receive "+what, b.Mem[to:][:size+1], append(pattern(i, size), guard))
	}
}

func checkMemlock(t *trial) {
	l := t.link(Config{})
	var old unix.Rlimit
	t.must("get RLIMIT_MEMLOCK", unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old))
	limit := old
	limit.Cur = min(64<<10, old.Max)
	t.must("set RLIMIT_MEMLOCK", unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit))
	var mr *verbs.MR
	var err, queueErr error
	dropErr := withoutLockCapability(func() {
		mr, err = l.pd.Alloc(4<<20, rights(t.dev))
		queueErr = l.largeQueue()
	})
	t.must("restore RLIMIT_MEMLOCK", unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old))
	t.must("drop CAP_IPC_LOCK", dropErr)
	if err == nil {
		t.must("close a region", mr.Close())
		t.fail("4 MiB were registered with a limit of %d bytes and without CAP_IPC_LOCK", limit.Cur)
	}
	t.note("limit of %d bytes, region of 4 MiB: %v", limit.Cur, err)
	if !errors.Is(err, syscall.ENOMEM) {
		t.fail("registration beyond the limit: %v, want ENOMEM", err)
	}
	t.note("limit of %d bytes, queues of %d requests: %v", limit.Cur, largeQueue, queueErr)
	if queueErr != nil && !errors.Is(queueErr, syscall.ENOMEM) { // rxe and siw allocate the queues in the kernel
		t.fail("queues beyond the limit: %v, want success or ENOMEM", queueErr)
	}
	l.send(l.write(piece{0, 64}, 0)) // everything else still works
	if old.Cur < 64<<20 {
		return
	}
	mr, err = l.pd.Alloc(4<<20, rights(t.dev))
	t.must("register with the old limit", err)
	l.useRegion("region after the limit", mr, 1)
	t.must("close a region", mr.Close())
	t.must("create large queues with the old limit", l.largeQueue())
}

// largeQueue is a number of requests whose queue is larger than 64 KiB on a ConnectX.
const largeQueue = 2048

// largeQueue creates a CQ and a QP with large queues, and closes them.
func (l *link) largeQueue() error {
	entries := min(largeQueue, l.t.attr.MaxQPWR)
	cq, err := l.dev.CreateCQ(verbs.CQConfig{Entries: entries})
	if err != nil {
		return err
	}
	qp, err := l.pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{SendWR: entries, RecvWR: entries}})
	if err != nil {
		return errors.Join(err, cq.Close())
	}
	return errors.Join(qp.Close(), cq.Close())
}

// withoutLockCapability calls f on a thread without CAP_IPC_LOCK. The kernel refuses the doorbells of rxe and
// siw from such a thread, because another thread opened the device with other credentials.
func withoutLockCapability(f func()) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		err := dropLockCapability()
		if err == nil {
			f()
		}
		done <- err
	}()
	return <-done
}

// dropLockCapability removes CAP_IPC_LOCK from the effective capabilities of the thread.
func dropLockCapability() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	sets[0].Effective &^= 1 << unix.CAP_IPC_LOCK
	return unix.Capset(&header, &sets[0])
}

// alone moves the thread of the check into a namespace of its own and returns another user of the device.
func (t *trial) alone(namespace int) *verbs.Host {
	runtime.LockOSThread() // the thread ends with the goroutine
	err := unix.Unshare(namespace)
	if errors.Is(err, syscall.EPERM) {
		t.skip("the user may not create namespaces (CAP_SYS_ADMIN)")
	}
	t.must("unshare", err)
	return &verbs.Host{Drivers: t.target.Host.Drivers, Log: t.target.Host.Log}
}

func checkNamespace(t *trial) {
	host := t.alone(unix.CLONE_NEWNET)
	infos, err := host.Devices()
	t.must("list the devices", err)
	found := false
	for _, info := range infos {
		found = found || info.Name == t.target.Device
	}
	dev, err := host.Open(t.target.Device)
	if !found {
		t.note("the device is not in the namespace (exclusive mode), open: %v", err)
		if err == nil {
			dev.Close()
			t.fail("a device that is not in the namespace was opened")
		}
		return
	}
	t.must("open a device that the namespaces share", err)
	t.later(dev.Close)
	if !iwarp(dev) && dev.LinkLayer(t.target.Port) == verbs.LinkEthernet {
		gid, err := dev.GIDFor(t.target.Port, t.target.Addr)
		t.note("GID: %v", err)
		if _, ok := errors.AsType[*verbs.NoGIDError](err); !ok {
			t.fail("GID of an interface in another namespace: %v, %v, want a NoGIDError", gid.GID, err)
		}
	}
	if !t.target.Addr.IsValid() {
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	d := cm.Dialer{Host: host}
	conn, err := d.Dial(ctx, "tcp", t.anyPort())
	t.note("connect: %v", err)
	if err == nil {
		conn.Close()
		t.fail("a connection was established from an empty namespace")
	}
	if ctx.Err() != nil {
		t.fail("the connection attempt took %v: %v", patience, err)
	}
}

func checkNoSysfs(t *trial) {
	host := t.alone(unix.CLONE_NEWNS)
	t.must("make the mounts private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	t.must("hide /sys", unix.Mount("none", "/sys", "tmpfs", 0, ""))
	dev, err := host.Open(t.target.Device)
	t.must("open the device without /sys", err)
	t.later(dev.Close)
	pd, err := dev.AllocPD()
	t.must("allocate a PD", err)
	t.later(pd.Close)
	mr, err := pd.Alloc(4096, verbs.LocalWrite)
	t.must("register", err)
	t.later(mr.Close)
	qp, err := pd.CreateQP(verbs.QPConfig{})
	t.must("create a QP", err)
	t.later(qp.Close)
	_, err = dev.QueryPort(t.target.Port)
	t.must("query the port", err)
	_, err = dev.GIDs()
	t.must("query the GIDs", err)
	counters, err := dev.PortCounters(t.target.Port)
	t.note("%d counters, %v", len(counters), err)
}
