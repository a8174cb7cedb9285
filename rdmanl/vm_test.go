// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rdmanl_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/rdmanl"
	"purerdma/test/pairing"
	"purerdma/verbs"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// dial opens a Conn for a test.
func dial(t *testing.T) *rdmanl.Conn {
	t.Helper()
	c, err := rdmanl.Dial()
	if err != nil {
		t.Fatalf("Dial(): %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// device returns the device of a host.
func device(t *testing.T, c *rdmanl.Conn, h vmtest.Host) rdmanl.Device {
	t.Helper()
	devices, err := c.Devices()
	if err != nil {
		t.Fatalf("Devices(): %v", err)
	}
	for _, d := range devices {
		if d.Name == h.Device {
			return d
		}
	}
	t.Fatalf("Devices() = %+v, want one with the name %s", devices, h.Device)
	return rdmanl.Device{}
}

// connect makes a connection between two hosts, with memory in addition, and an SRQ if the devices have them.
func connect(t *testing.T, hosts []vmtest.Host) {
	t.Helper()
	ctx := t.Context()
	addr := fmt.Sprintf("%s:7481", hosts[0].IPv4)
	ln, err := (&cm.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		t.Fatalf("Listen(%s): %v", addr, err)
	}
	t.Cleanup(func() { ln.Close() })
	accepted := make(chan *cm.Conn, 1)
	go func() {
		defer close(accepted)
		req, err := ln.Accept(ctx)
		if err != nil {
			t.Errorf("ln.Accept(): %v", err)
			return
		}
		conn, err := req.Accept(ctx, nil, nil)
		if err != nil {
			t.Errorf("req.Accept(): %v", err)
			return
		}
		accepted <- conn
	}()
	local, err := cm.ParseAddr(fmt.Sprintf("%s:0", hosts[1].IPv4))
	if err != nil {
		t.Fatalf("ParseAddr: %v", err)
	}
	conn, err := (&cm.Dialer{LocalAddr: local}).Dial(ctx, "tcp", addr)
	if err != nil {
		t.Fatalf("Dial(%s): %v", addr, err)
	}
	t.Cleanup(func() { conn.Close() })
	server, ok := <-accepted
	if !ok {
		t.Fatal("the listener has no connection")
	}
	t.Cleanup(func() { server.Close() })
	if _, err := conn.Alloc(10000, verbs.LocalWrite|verbs.RemoteRead); err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	dev, err := verbs.DefaultHost().Open(hosts[0].Device)
	if err != nil {
		t.Fatalf("Open(%s): %v", hosts[0].Device, err)
	}
	t.Cleanup(func() { dev.Close() })
	pd, err := dev.DefaultPD()
	if err != nil {
		t.Fatalf("DefaultPD(): %v", err)
	}
	if !hasSRQs() {
		return
	}
	srq, err := pd.CreateSRQ(verbs.SRQConfig{MaxWR: 16, MaxSGE: 1})
	if err != nil {
		t.Fatalf("CreateSRQ: %v", err)
	}
	t.Cleanup(func() { srq.Close() })
}

// hasSRQs reports whether the driver has shared receive queues for programs.
func hasSRQs() bool { return vmtest.Driver() != "erdma" }

// find returns a program of rdma-core or iproute2.
func find(t *testing.T, name string) pairing.Program {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v (rdmavm -packages iproute2,rdmacm-utils,ibverbs-utils,ibverbs-providers)", err)
	}
	return pairing.Program{Name: "C", Path: path}
}

// peers starts rdma-core's rping and ibv_rc_pingpong. They have objects and wait until the end of the
// test.
func peers(t *testing.T, c *rdmanl.Conn, hosts []vmtest.Host) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	rping := find(t, "rping")
	port := pairing.NewPort()
	start := func(p pairing.Program, args ...string) *pairing.Process {
		t.Helper()
		proc, err := pairing.Start(ctx, p, args...)
		if err != nil {
			t.Fatalf("start %s: %v", p.Path, err)
		}
		t.Cleanup(func() {
			cancel()
			proc.Wait(10 * time.Second)
		})
		return proc
	}
	var running []*pairing.Process
	running = append(running, start(rping, "-s", "-a", hosts[0].IPv4.String(), "-p", fmt.Sprint(port)))
	running = append(running, start(find(t, "ibv_rc_pingpong"), "-d", hosts[0].Device, "-g", "0", "-p", fmt.Sprint(pairing.NewPort())))
	// rping listens, and ibv_rc_pingpong has a QP in the state INIT.
	d := device(t, c, hosts[0])
	await(t, func() error {
		ids, err := c.CMIDs(d.Index)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if id.State == rdmanl.CMListen && int(id.Local.Port()) == port {
				return nil
			}
		}
		return fmt.Errorf("CMIDs() = %+v, want a listener on port %d; rping: %v", ids, port, running[0].Output())
	})
	await(t, func() error {
		qps, err := c.QPs(d.Index)
		if err != nil {
			return err
		}
		for _, q := range qps {
			// The drivers of iWARP report RESET for each QP without a connection, erdma up to Linux 6.11.
			if q.Comm() == "ibv_rc_pingpong" && (q.State == rdmanl.QPInit || vmtest.IWARP()) {
				return nil
			}
		}
		return fmt.Errorf("QPs() = %+v, want one of ibv_rc_pingpong; it: %v", qps, running[1].Output())
	})
}

// await repeats a check until it succeeds.
func await(t *testing.T, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("check after 30 s: %v", err)
		}
	}
}

// TestVMCompare compares each field of all objects with the output of iproute2's rdma, while objects of
// this process and of rdma-core's programs exist.
func TestVMCompare(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	find(t, "rdma")
	c := dial(t)
	connect(t, hosts)
	peers(t, c, hosts)
	if vmtest.Driver() == "mlx5" {
		driverObjects(t, hosts[0])
		driverPeers(t, c, hosts[0])
	}
	devices, err := c.Devices()
	if err != nil || len(devices) != 2 {
		t.Fatalf("Devices() = %+v, %v, want 2 devices", devices, err)
	}
	for _, l := range listings {
		t.Run(strings.ReplaceAll(l.args, " ", "_"), func(t *testing.T) {
			var ours, theirs []object
			// The PSNs change while packets are in flight. The lists are comparable when the objects
			// were the same before and after the other program's run.
			await(t, func() error {
				before, err := l.list(c, devices)
				if err != nil {
					return err
				}
				theirs = rdma(t, l)
				if ours, err = l.list(c, devices); err != nil {
					return err
				}
				if diff := difference(before, ours); diff != "" {
					return fmt.Errorf("the objects change: %s", diff)
				}
				return nil
			})
			least := l.least
			if l.args == "resource show srq" && !hasSRQs() {
				least = 0
			}
			if least > len(ours) {
				t.Errorf("%d objects, want at least %d", len(ours), least)
			}
			if vmtest.Driver() == "mlx5" {
				checkDriverValues(t, l.args, ours)
			}
			checkSame(t, l, ours, theirs)
			t.Logf("%d objects, %d fields", len(ours), fields(ours))
		})
	}
}

// TestVMOwners checks that objects have their process.
func TestVMOwners(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	c := dial(t)
	connect(t, hosts)
	// Owner names the thread that made the object.
	mine := func(o rdmanl.Owner) bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", o.PID))
		return err == nil && o.Kernel == ""
	}
	d := device(t, c, hosts[0])
	found := map[string]int{}
	qps, err := c.QPs(d.Index)
	if err != nil {
		t.Fatalf("QPs(): %v", err)
	}
	for _, q := range qps {
		if mine(q.Owner) && (q.State == rdmanl.QPRTS || vmtest.IWARP()) { // which may report no state
			found["QP"]++
		}
	}
	ids, err := c.CMIDs(d.Index)
	if err != nil {
		t.Fatalf("CMIDs(): %v", err)
	}
	for _, id := range ids {
		if mine(id.Owner) {
			found["CMID "+id.State.String()]++
		}
	}
	srqs, err := c.SRQs(d.Index)
	if err != nil {
		t.Fatalf("SRQs(): %v", err)
	}
	for _, s := range srqs {
		if mine(s.Owner) {
			found["SRQ"]++
		}
	}
	for _, kind := range []string{"QP", "CMID LISTEN", "CMID CONNECT", "SRQ"} {
		if found[kind] == 0 && (kind != "SRQ" || hasSRQs()) {
			t.Errorf("objects of this process = %v, want one of the kind %s", found, kind)
		}
	}
}

// TestVMManyQPs lists more objects than a message has room for.
func TestVMManyQPs(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	c := dial(t)
	d := device(t, c, hosts[0])
	dev, err := verbs.DefaultHost().Open(hosts[0].Device)
	if err != nil {
		t.Fatalf("Open(%s): %v", hosts[0].Device, err)
	}
	defer dev.Close()
	pd, err := dev.DefaultPD()
	if err != nil {
		t.Fatalf("DefaultPD(): %v", err)
	}
	cq, err := dev.CreateCQ(verbs.CQConfig{Entries: 4})
	if err != nil {
		t.Fatalf("CreateCQ: %v", err)
	}
	defer cq.Close()
	// A message of 32 KiB has room for about 350 QPs.
	const count = 1200
	want := map[uint32]bool{}
	for range count {
		q, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{SendWR: 1, RecvWR: 1, SendSGE: 1, RecvSGE: 1}})
		if err != nil {
			t.Fatalf("CreateQP: %v", err)
		}
		defer q.Close()
		want[q.Num()] = true
	}
	qps, err := c.QPs(d.Index)
	if err != nil {
		t.Fatalf("QPs(): %v", err)
	}
	seen := map[uint32]bool{}
	for _, q := range qps {
		if seen[q.Number] {
			t.Errorf("QP %d is twice in the list", q.Number)
		}
		seen[q.Number] = true
	}
	missing := 0
	for n := range want {
		if !seen[n] {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("QPs() lacks %d of %d QPs", missing, count)
	}
}
