// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rdmanl_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/rdmanl"
	"purerdma/test/pairing"
	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// driverObjects makes objects on a host's ConnectX that have properties of the driver: memory on demand, and an initiator of dynamic
// connections. They exist until the end of the test. Linux lists no targets.
func driverObjects(t *testing.T, h vmtest.Host) {
	t.Helper()
	dev, err := verbs.DefaultHost().Open(h.Device)
	must(t, "Open", err)
	t.Cleanup(func() { dev.Close() })
	pd, err := dev.AllocPD()
	must(t, "AllocPD", err)
	t.Cleanup(func() { pd.Close() })
	mr, err := pd.Alloc(1<<16, verbs.LocalWrite|verbs.OnDemand)
	must(t, "PD.Alloc", err)
	t.Cleanup(func() { mr.Close() })
	cq, err := dev.CreateCQ(verbs.CQConfig{Entries: 16})
	must(t, "CreateCQ", err)
	t.Cleanup(func() { cq.Close() })
	d, err := mlx5dv.From(dev)
	must(t, "mlx5dv.From", err)
	initiator, err := d.CreateDCI(mlx5dv.DCIConfig{PD: pd, CQ: cq, Cap: verbs.QPCap{SendWR: 4, SendSGE: 1}})
	must(t, "CreateDCI", err)
	t.Cleanup(func() { initiator.Close() })
	must(t, "DCI.Modify", initiator.Modify(&verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort))
}

// driverPeers starts perftest with dynamic connections on a host's ConnectX, and stops its processes when they have their QPs, so
// that the QPs remain until the end of the test.
func driverPeers(t *testing.T, c *rdmanl.Conn, h vmtest.Host) {
	t.Helper()
	dev, err := verbs.DefaultHost().Open(h.Device)
	must(t, "Open", err)
	defer dev.Close()
	gid, err := dev.GIDFor(1, h.IPv4)
	must(t, "GIDFor", err)
	program := find(t, perftest)
	ctx, cancel := context.WithCancel(t.Context())
	port := pairing.NewPort()
	args := []string{"-c", "DC", "-d", h.Device, "-x", fmt.Sprint(gid.Index), "-p", fmt.Sprint(port), "-D", "1000", "-F"} // -F: an emulated clock
	var running []*pairing.Process
	start := func(args ...string) {
		t.Helper()
		p, err := pairing.Start(ctx, program, args...)
		must(t, "pairing.Start", err)
		t.Cleanup(func() {
			cancel()
			p.Wait(10 * time.Second)
		})
		running = append(running, p)
	}
	start(args...)
	await(t, func() error { return listens(port) }) // the client tries once
	start(append(args, h.IPv4.String())...)
	d := device(t, c, h)
	await(t, func() error {
		list, err := listQPs(c, d)
		if err != nil {
			return err
		}
		n := 0
		for _, o := range list {
			if o["comm"] == perftest && isDriverQP(o) {
				n++
			}
		}
		if n == 0 { // the client's initiator
			return fmt.Errorf("listQPs() = %v, want a QP of %s; %v", list, perftest, running[0].Output())
		}
		return nil
	})
	for _, p := range running {
		p.Signal(syscall.SIGSTOP)
	}
}

// listens returns an error unless a process listens on a TCP port. The server would take a connection for its client.
func listens(port int) error {
	socket := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]+:%04X [0:]+ 0A `, port))
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if socket.Match(b) {
			return nil
		}
	}
	return fmt.Errorf("nothing listens on port %d", port)
}

// perftest is a program of perftest with dynamic connections.
const perftest = "ib_write_bw"

// detailsSince is the version from which Linux and rdma(8) distinguish the QPs of a driver. An older rdma(8) does not
// print them.
var detailsSince = []int{6, 11}

// atLeast reports whether a version such as "6.12.74-1" is since or later.
func atLeast(t *testing.T, version string, since []int) bool {
	t.Helper()
	var have [2]int
	if _, err := fmt.Sscanf(version, "%d.%d", &have[0], &have[1]); err != nil {
		t.Fatalf("fmt.Sscanf(%q): %v", version, err)
	}
	return slices.Compare(have[:], since) >= 0
}

// detailedKernel reports whether the kernel distinguishes the QPs of a driver.
func detailedKernel(t *testing.T) bool {
	t.Helper()
	return atLeast(t, os.Getenv("RDMAVM_KERNEL_RELEASE"), detailsSince)
}

// detailedRDMA reports whether rdma(8) prints them.
func detailedRDMA(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command("rdma", "-V").Output()
	if err != nil {
		t.Fatalf("rdma -V: %v", err)
	}
	_, version, _ := strings.Cut(string(out), "iproute2-")
	return atLeast(t, version, detailsSince)
}

// isDriverQP reports whether an object is a QP whose type the driver defines.
func isDriverQP(o object) bool { return o["type"] == rdmanl.QPDriver.String() }

// checkDriverValues checks that the lists of this package have the properties of driverObjects and of driverPeers.
func checkDriverValues(t *testing.T, args string, list []object) {
	t.Helper()
	var have []string
	for _, o := range list {
		if o["drv_odp"] != "" || isDriverQP(o) {
			have = append(have, strings.Join(strings.Fields(o["comm"]+" "+o["drv_odp"]+" "+o["subtype"]), " "))
		}
	}
	const own = "rdmanl.test"
	var want []string
	switch {
	case args == "resource show mr":
		want = []string{own + " explicit"}
	case args == "resource show qp" && detailedKernel(t):
		want = []string{own + " DCI", perftest + " DCI"}
	case args == "resource show qp":
		want = []string{own, perftest}
	}
	for _, name := range want {
		if !slices.Contains(have, name) {
			t.Errorf("objects of %q with properties of the driver = %q, want also %s", args, have, name)
		}
	}
}
