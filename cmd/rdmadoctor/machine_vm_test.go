// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// examine runs the program as an unprivileged user with its own memory limit. It returns "check
// object" for each finding.
func examine(t *testing.T, limit uint64, change ...func(*exec.Cmd)) []string {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}, &old); err != nil {
		t.Fatalf("unix.Prlimit: %v", err)
	}
	defer unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &old, nil)
	var out, errs bytes.Buffer
	cmd := exec.Command(filepath.Join(filepath.Dir(os.Getenv("RPING")), "rdmadoctor"), "--json")
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	for _, f := range change {
		f(cmd)
	}
	err := cmd.Run()
	var report struct {
		Findings []finding
		Unseen   []unseen
	}
	if derr := json.Unmarshal(out.Bytes(), &report); derr != nil {
		t.Fatalf("rdmadoctor --json: %v in its output %s; stderr: %s", derr, out.Bytes(), errs.Bytes())
	}
	if len(report.Unseen) > 0 {
		t.Errorf("unseen = %v, want none", report.Unseen)
	}
	status := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
	} else if err != nil {
		t.Fatalf("cmd.Run: %v", err)
	}
	if want := min(len(report.Findings), 1); status != want {
		t.Errorf("rdmadoctor exited with status %d, want %d with %d findings", status, want, len(report.Findings))
	}
	names := []string{}
	for _, f := range report.Findings {
		t.Logf("%+v", f)
		names = append(names, f.Check+" "+f.Object)
	}
	return names
}

// register registers size bytes under a memory limit of limit bytes.
func register(t *testing.T, device string, limit uint64, size int) error {
	t.Helper()
	dev, err := verbs.DefaultHost().Open(device)
	if err != nil {
		t.Fatalf("verbs.DefaultHost().Open: %v", err)
	}
	defer dev.Close()
	pd, err := dev.DefaultPD()
	if err != nil {
		t.Fatalf("dev.DefaultPD: %v", err)
	}
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}, &old); err != nil {
		t.Fatalf("unix.Prlimit: %v", err)
	}
	defer unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &old, nil)
	mr, err := pd.Alloc(size, verbs.LocalWrite)
	if err != nil {
		return err
	}
	return mr.Close()
}

// is compares the findings with the expected ones.
func is(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("findings = %q, want %q", got, want)
	}
}

func TestOnAMachine(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	const enough = 64 << 20
	nodes, err := filepath.Glob("/dev/infiniband/uverbs*")
	if err != nil || len(nodes) != 2 {
		t.Fatalf("Glob = %q, %v, want two nodes", nodes, err)
	}
	check := func(call string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
	}
	// Root's own limits and nodes do not count. First make the machine usable for every user.
	for _, path := range append(nodes, "/dev/infiniband/rdma_cm") {
		info, err := os.Stat(path)
		check("os.Stat", err)
		check("os.Chmod", os.Chmod(path, 0o666))
		t.Cleanup(func() { os.Chmod(path, info.Mode().Perm()) })
	}
	is(t, examine(t, enough))
	if t.Failed() {
		t.Fatal("the unmodified machine has findings")
	}

	until := func(t *testing.T, want ...string) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			got := examine(t, enough)
			if slices.Equal(got, want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("findings after 5 s = %q, want %q", got, want)
			}
		}
	}

	t.Run("mode", func(t *testing.T) {
		check("os.Chmod", os.Chmod(nodes[1], 0o600))
		defer os.Chmod(nodes[1], 0o666)
		is(t, examine(t, enough), "node "+nodes[1])
	})
	t.Run("node", func(t *testing.T) {
		for _, path := range []string{"/dev/infiniband/rdma_cm", nodes[0]} {
			check("os.Rename", os.Rename(path, path+".hidden"))
			is(t, examine(t, enough), "node "+path)
			check("os.Rename", os.Rename(path+".hidden", path))
		}
	})
	t.Run("stale node", func(t *testing.T) {
		check("os.Rename", os.Rename(nodes[0], nodes[0]+".hidden"))
		defer os.Rename(nodes[0]+".hidden", nodes[0])
		check("unix.Mknod", unix.Mknod(nodes[0], unix.S_IFCHR|0o666, int(unix.Mkdev(231, 223))))
		defer os.Remove(nodes[0])
		is(t, examine(t, enough), "node "+nodes[0])
	})
	t.Run("directory", func(t *testing.T) {
		check("os.Chmod", os.Chmod("/dev/infiniband", 0o700))
		defer os.Chmod("/dev/infiniband", 0o755)
		is(t, examine(t, enough), "node /dev/infiniband/rdma_cm", "node "+nodes[0], "node "+nodes[1])
	})
	t.Run("memlock", func(t *testing.T) { is(t, examine(t, 1<<16), "memlock RLIMIT_MEMLOCK") })
	t.Run("memlock of root", func(t *testing.T) {
		// The kernel limits root if registering fails.
		var want []string
		if err := register(t, hosts[0].Device, 1<<16, 1<<20); errors.Is(err, syscall.ENOMEM) {
			want = []string{"memlock RLIMIT_MEMLOCK"}
		} else if err != nil {
			t.Fatalf("register: %v", err)
		}
		t.Logf("want %q", want)
		is(t, examine(t, 1<<16, func(cmd *exec.Cmd) { cmd.SysProcAttr = nil }), want...)
	})
	t.Run("network namespace", func(t *testing.T) {
		got := examine(t, enough, func(cmd *exec.Cmd) { cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET })
		is(t, got, "port "+hosts[0].Device+" port 1", "port "+hosts[1].Device+" port 1")
	})
	t.Run("address", func(t *testing.T) {
		link, err := netlink.LinkByName(hosts[0].Interface)
		check("netlink.LinkByName", err)
		addr, err := netlink.ParseAddr("10.77.0.1/24")
		check("netlink.ParseAddr", err)
		check("netlink.AddrAdd", netlink.AddrAdd(link, addr))
		defer netlink.AddrDel(link, addr)
		until(t) // the address has its GID
		// An equal address with another prefix length shares the GID. Removing it removes the
		// GID.
		twin, err := netlink.ParseAddr("10.77.0.1/16")
		check("netlink.ParseAddr", err)
		check("netlink.AddrAdd", netlink.AddrAdd(link, twin))
		check("netlink.AddrDel", netlink.AddrDel(link, twin))
		until(t, "gid "+hosts[0].Device+" port 1")
		// The suggested fix works.
		check("netlink.AddrDel", netlink.AddrDel(link, addr))
		check("netlink.AddrAdd", netlink.AddrAdd(link, addr))
		until(t)
	})
	t.Run("no device", func(t *testing.T) {
		for _, h := range hosts[:2] {
			check("h.Unplug", h.Unplug())
		}
		defer func() {
			for _, h := range hosts[:2] {
				h.Plug(t)
			}
		}()
		is(t, examine(t, enough), "device RDMA devices")
	})
	t.Run("link down", func(t *testing.T) {
		// Use a separate device, because addresses and routes are removed with the link.
		veth := netlink.NewVeth(netlink.LinkAttrs{Name: "doctor8"})
		veth.PeerName = "doctor9"
		check("netlink.LinkAdd", netlink.LinkAdd(veth))
		defer netlink.LinkDel(veth)
		peer, err := netlink.LinkByName(veth.PeerName)
		check("netlink.LinkByName", err)
		check("netlink.LinkSetUp", netlink.LinkSetUp(peer))
		for _, a := range []string{"10.77.0.1/24", "fd00:77::1/64"} {
			addr, err := netlink.ParseAddr(a)
			check("netlink.ParseAddr", err)
			addr.Flags = unix.IFA_F_NODAD
			check("netlink.AddrAdd", netlink.AddrAdd(veth, addr))
		}
		check("netlink.LinkSetUp", netlink.LinkSetUp(veth))
		h := vmtest.Host{Device: "rdmadoctor", Interface: "doctor8"}
		h.Plug(t)
		defer h.Unplug()
		// udev does not run here. The node has the kernel's default mode.
		now, err := filepath.Glob("/dev/infiniband/uverbs*")
		check("filepath.Glob", err)
		for _, path := range now {
			check("os.Chmod", os.Chmod(path, 0o666))
		}
		until(t)
		check("netlink.LinkSetDown", netlink.LinkSetDown(peer))
		until(t, "port rdmadoctor port 1") // no carrier
		check("netlink.LinkSetUp", netlink.LinkSetUp(peer))
		until(t)
		check("netlink.LinkSetDown", netlink.LinkSetDown(veth))
		until(t, "port rdmadoctor port 1")
	})
}
