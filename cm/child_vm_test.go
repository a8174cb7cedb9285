// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// children holds the programs that the tests start as separate processes.
var children = map[string]func() int{
	"echo":    echoChild,
	"few":     fewDescriptorsChild,
	"client":  clientChild,
	"open":    openChild,
	"memory":  memoryChild,
	"example": exampleChild,
	"idle":    idleChild,
}

// spawn starts a child and returns the first line of its output, which it prints when it is
// ready.
func spawn(t *testing.T, name, arg string, setup ...func(*exec.Cmd)) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CM_TEST_CHILD="+name, "CM_TEST_ARG="+arg)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	for _, fn := range setup {
		fn(cmd)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("child %s: read of the first line: %v", name, err)
	}
	return cmd, strings.TrimSpace(line)
}

func echoChild() int {
	lc := cm.ListenConfig{MaxConns: -1, MaxConnsPerAddr: -1} // for a thousand clients of one address
	ln, err := lc.Listen(context.Background(), "tcp", os.Getenv("CM_TEST_ARG"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(ln.Addr())
	echo(ln)
	return 0
}

// maxDescriptors is the limit of fewDescriptorsChild.
const maxDescriptors = 64

// fewDescriptorsChild is echoChild in a process that may have few descriptors.
func fewDescriptorsChild() int {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: maxDescriptors, Max: maxDescriptors}); err != nil {
		fmt.Println(err)
		return 1
	}
	return echoChild()
}

func clientChild() int {
	from, to, _ := strings.Cut(os.Getenv("CM_TEST_ARG"), " ")
	d := cm.Dialer{LocalAddr: mustParse(from + ":0")}
	conn, err := d.Dial(context.Background(), "tcp", to)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("connected")
	conn.Wait(context.Background())
	return 0
}

// openChild prints the error of Dial.
func openChild() int {
	_, err := cm.Dial(context.Background(), "tcp", os.Getenv("CM_TEST_ARG"))
	fmt.Printf("%v|%v|%v\n", err, errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission))
	return 0
}

// memoryChild prints the error of a registration beyond RLIMIT_MEMLOCK.
func memoryChild() int {
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}); err != nil {
		fmt.Println(err)
		return 1
	}
	r, err := cm.Resolve(context.Background(), "tcp", os.Getenv("CM_TEST_ARG"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer r.Close()
	pd, err := r.PD()
	if err == nil {
		_, err = pd.Alloc(1<<20, verbs.LocalWrite)
	}
	fmt.Printf("%v|%v\n", err, errors.Is(err, syscall.ENOMEM))
	return 0
}

// unprivileged runs a child as user 65534, without root and without capabilities.
func unprivileged(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

func TestMissingNode(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, node := range []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs"} {
		t.Run(filepath.Base(node), func(t *testing.T) {
			hide(t, node)
			_, said := spawn(t, "open", at(hosts[0].IPv4, 7471), unprivileged)
			if !strings.Contains(said, node) || !strings.HasSuffix(said, "|true|false") {
				t.Errorf("output without %s = %s, want its name and ErrNotExist", node, said)
			}
		})
	}
}

func TestNoPermission(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, node := range []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs"} {
		t.Run(filepath.Base(node), func(t *testing.T) {
			forbid(t, node)
			_, said := spawn(t, "open", at(hosts[0].IPv4, 7471), unprivileged)
			if !strings.Contains(said, node) || !strings.HasSuffix(said, "|false|true") {
				t.Errorf("output with %s unreadable = %s, want its name and ErrPermission", node, said)
			}
		})
	}
}

func TestMemlock(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	_, said := spawn(t, "memory", at(hosts[0].IPv4, 7471), unprivileged)
	if !strings.Contains(said, "RLIMIT_MEMLOCK") || !strings.HasSuffix(said, "|true") {
		t.Errorf("output = %s, want RLIMIT_MEMLOCK and ENOMEM", said)
	}
}

// TestVMOutOfDescriptors makes connections until the server is out of descriptors. The server keeps its connections,
// and accepts others when clients have left.
func TestVMOutOfDescriptors(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	_, addr := spawn(t, "few", at(hosts[0].IPv4, 0))
	d := dialerOf(hosts[1].IPv4)
	var conns []*cm.Conn
	for {
		conn, err := d.Dial(within(t, 15*time.Second), "tcp", addr)
		if err != nil {
			t.Logf("connection %d: %v", len(conns)+1, err)
			break
		}
		defer conn.Close()
		if conns = append(conns, conn); len(conns) == maxDescriptors {
			t.Fatalf("a server with %d descriptors has %d connections", maxDescriptors, len(conns))
		}
	}
	if len(conns) < 4 {
		t.Fatalf("connections = %d, want at least 4", len(conns))
	}
	half := len(conns) / 2
	for _, conn := range conns[:half] {
		if err := conn.Close(); err != nil {
			t.Errorf("Conn.Close: %v", err)
		}
	}
	// The server frees the descriptors of a connection after it has seen the end.
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := d.Dial(within(t, 15*time.Second), "tcp", addr)
		if err == nil {
			say(t, conn, "a new client")
			conn.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("Dial after %d connections were closed: %v", half, err)
		}
	}
	for _, conn := range conns[half:] {
		say(t, conn, "still there")
	}
}

// TestVMUnusableDevice sends requests to a device that the server may not open. The server refuses them, and accepts
// requests on its other device.
func TestVMUnusableDevice(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	infos, err := verbs.DefaultHost().Devices()
	if err != nil {
		t.Fatalf("Host.Devices: %v", err)
	}
	for _, info := range infos {
		if info.Name == hosts[1].Device {
			forbid(t, info.Node)
		}
	}
	_, addr := spawn(t, "echo", "0.0.0.0:0", unprivileged)
	port := mustParse(addr).Port()
	for range 3 {
		_, err := dialerOf(hosts[0].IPv4).Dial(within(t, 10*time.Second), "tcp", at(hosts[1].IPv4, port))
		if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), `"the device cannot be used"`) {
			t.Errorf("Dial of the device without permission = %v, want a rejection with the reason", err)
		}
		served(t, dialerOf(hosts[1].IPv4), mustParse(at(hosts[0].IPv4, port)))
	}
}

// eachNode calls fn with the device nodes whose path begins with prefix.
func eachNode(t *testing.T, prefix string, fn func(path string)) {
	t.Helper()
	nodes, err := os.ReadDir("/dev/infiniband")
	if err != nil {
		t.Fatalf("os.ReadDir: %v", err)
	}
	for _, n := range nodes {
		if path := "/dev/infiniband/" + n.Name(); strings.HasPrefix(path, prefix) {
			fn(path)
		}
	}
}

// hide renames device nodes until the test ends.
func hide(t *testing.T, prefix string) {
	t.Helper()
	eachNode(t, prefix, func(path string) {
		if err := os.Rename(path, path+".hidden"); err != nil {
			t.Fatalf("os.Rename: %v", err)
		}
		t.Cleanup(func() { os.Rename(path+".hidden", path) })
	})
}

// forbid removes the access rights of other users to device nodes until the test ends.
func forbid(t *testing.T, prefix string) {
	t.Helper()
	eachNode(t, prefix, func(path string) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatalf("os.Stat: %v", err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatalf("os.Chmod: %v", err)
		}
		t.Cleanup(func() { os.Chmod(path, info.Mode().Perm()) })
	})
}
