// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The end-to-end tests boot virtual machines: RDMAVM_E2E=1 go test
// ./cmd/rdmavm. They take a few minutes under software emulation.

// e2e is rdmavm and the program to run in it, built for one test.
type e2e struct {
	t            *testing.T
	dir          string
	rdmavm, prog string
}

func newE2E(t *testing.T) *e2e {
	t.Helper()
	if os.Getenv("RDMAVM_E2E") != "1" {
		t.Skip("boots virtual machines: set RDMAVM_E2E=1")
	}
	dir := t.TempDir()
	e := &e2e{t: t, dir: dir, rdmavm: filepath.Join(dir, "rdmavm"), prog: filepath.Join(dir, "prog")}
	e.build(e.rdmavm, ".")
	e.build(e.prog, "./testdata/prog")
	return e
}

func (e *e2e) build(out, pkg string, env ...string) {
	e.t.Helper()
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	if b, err := cmd.CombinedOutput(); err != nil {
		e.t.Fatalf("go build %s: %v\n%s", pkg, err, b)
	}
}

// run runs rdmavm in the test's directory.
func (e *e2e) run(stdin io.Reader, args ...string) (stdout, stderr string, status int) {
	e.t.Helper()
	cmd := exec.Command(e.rdmavm, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = e.dir, stdin, &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		e.t.Fatalf("cmd.Run: %v", err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// want runs rdmavm and compares its status and output.
func (e *e2e) want(status int, out, errs string, args ...string) {
	e.t.Helper()
	stdout, stderr, got := e.run(nil, args...)
	if got != status || !strings.Contains(stdout, out) || !strings.Contains(stderr, errs) {
		e.t.Errorf("rdmavm %q = status %d, want %d\nstdout (want %q):\n%s\nstderr (want %q):\n%s", args, got, status, out, stdout, errs, stderr)
	}
}

func TestE2EStatus(t *testing.T) {
	e := newE2E(t)
	e.want(37, "out", "err", "sh", "-c", "echo out; echo err >&2; exit 37")
	e.want(125, "", "Kernel panic", "sh", "-c", "echo c > /proc/sysrq-trigger; sleep 60")
	e.want(125, "", "reported trouble", "sh", "-c", "echo 'BUG: made up' > /dev/kmsg")
	e.want(127, "", "no such file", "-root", "none", "/bin/sh", "-c", "true")
}

func TestE2EList(t *testing.T) {
	e := newE2E(t)
	list := filepath.Join(e.dir, "list")
	os.WriteFile(filepath.Join(e.dir, "data"), nil, 0o644)
	os.WriteFile(list, []byte(`{"args": ["sh", "-c", "exit 0"]}
{"args": ["sh", "-c", "kill -9 $$"]}
{"args": ["nosuch"]}
{"args": ["./data"]}
{"args": ["cat"]}
{"dir": "/usr", "args": ["sh", "-c", "pwd; echo $A; sleep 1000 & echo left"], "env": ["A=b"]}
{"args": ["sleep", "1000"]}
`), 0o644)
	stdout, stderr, status := e.run(strings.NewReader("no input for a list"), "-timeout", "5s", "-list", list)
	if want := "/usr\nb\nleft\n"; stdout != want || status != 137 {
		t.Errorf("rdmavm -list = status %d, stdout %q, want 137, %q", status, stdout, want)
	}
	for _, want := range []string{"[1/7] ok", "[2/7] exit status 137", "[3/7] exit status 127", "[4/7] exit status 126", "[5/7] ok", "[6/7] ok", "[7/7] exit status 124"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr of rdmavm -list lacks %q:\n%s", want, stderr)
		}
	}
}

// TestE2EBytes sends 10 MB through the guest and back, and compares them.
func TestE2EBytes(t *testing.T) {
	e := newE2E(t)
	data := make([]byte, 10<<20)
	rand.NewChaCha8([32]byte{}).Read(data)
	want := sha256.Sum256(data)
	stdout, stderr, status := e.run(bytes.NewReader(data), "sh", "-c", "cat | tee /dev/stderr")
	if strings.HasPrefix(stderr, "rdmavm: waiting ") {
		_, stderr, _ = strings.Cut(stderr, "\n")
	}
	if status != 0 || sha256.Sum256([]byte(stdout)) != want || sha256.Sum256([]byte(stderr)) != want {
		t.Errorf("rdmavm = status %d, %d and %d bytes of output, want 0 and the %d bytes of input", status, len(stdout), len(stderr), len(data))
	}
}

func TestE2ENetwork(t *testing.T) {
	e := newE2E(t)
	e.want(0, "wire ok\n", "", "-hosts", "2", e.prog, "wire")
	e.want(0, "wire ok\n", "", "-hosts", "2", "-root", "none", e.prog, "wire")
	e.want(3, "[0] served fd00:9::2\n", "", "-hosts", "2", "-vms", e.prog, "peers")
}

// TestE2ESIW also builds the module if it is not in the cache.
func TestE2ESIW(t *testing.T) {
	e := newE2E(t)
	e.want(0, "siw0,eth8,10.8.0.1,fd00:8::1 siw1,eth9,10.8.1.2,fd00:9::2\nwire ok\n", "",
		"-driver", "siw", "-hosts", "2", "sh", "-c", "echo $RDMAVM_HOSTS; exec "+e.prog+" wire")
}

func TestE2ERootNone(t *testing.T) {
	e := newE2E(t)
	if stdout, _, _ := e.run(nil, "-root", "none", e.prog, "files"); stdout != e.prog+"\n" {
		t.Errorf("-root none contains %q, want only the program", stdout)
	}
}

// TestE2EDynamic runs rdmavm as the go command builds it by default.
func TestE2EDynamic(t *testing.T) {
	e := newE2E(t)
	e.build(e.rdmavm, ".", "CGO_ENABLED=1")
	e.want(37, "", "", "sh", "-c", "exit 37")
}

func TestE2EGoTest(t *testing.T) {
	e := newE2E(t)
	mod := filepath.Join(e.dir, "mod")
	if err := os.CopyFS(mod, os.DirFS("testdata/mod")); err != nil {
		t.Fatalf("os.CopyFS: %v", err)
	}
	gotest := func(mode string, args ...string) (string, int) {
		cmd := exec.Command("go", slices.Concat([]string{"test", "-exec", e.rdmavm}, args)...)
		cmd.Dir = mod
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "E2E="+mode)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, status := gotest("", "-coverprofile", "cover.out", "-cpuprofile", "cpu.out", "-trace", "trace.out", "./a")
	if status != 0 || !strings.Contains(out, "coverage: 66.7%") {
		t.Errorf("go test with profiles = status %d, want 0:\n%s", status, out)
	}
	for _, name := range []string{"cover.out", "cpu.out", "trace.out", "a/written"} {
		if st, err := os.Stat(filepath.Join(mod, name)); err != nil || st.Size() == 0 {
			t.Errorf("Stat(%s) = %v, want a file with content", name, err)
		}
	}
	if _, err := os.Stat("/etc/rdmavm-e2e"); err == nil {
		t.Error("the guest has written to the host's /etc")
	}
	out, status = gotest("skip", "-v", "./a", "./b")
	if status != 0 || strings.Count(out, "--- SKIP: TestF") != 2 || !strings.Contains(out, "as asked") {
		t.Errorf("go test of skipping tests = status %d, want 0:\n%s", status, out)
	}
	out, status = gotest("fail", "./b")
	if status != 1 || !strings.Contains(out, "--- FAIL: TestF") || !strings.Contains(out, "as asked") {
		t.Errorf("go test of a failing test = status %d, want 1:\n%s", status, out)
	}
	out, status = gotest("panic", "./b")
	if status != 1 || !strings.Contains(out, "panic: as asked") || !strings.Contains(out, "goroutine ") {
		t.Errorf("go test of a panicking test = status %d, want 1:\n%s", status, out)
	}
}

// TestE2ESignals ends rdmavm with each signal.
func TestE2ESignals(t *testing.T) {
	e := newE2E(t)
	for _, tt := range []struct {
		mode   string
		signal syscall.Signal
		status int
	}{
		{"wait", syscall.SIGINT, 9},    // the program's own status
		{"hang", syscall.SIGTERM, 143}, // the program ignores it
		{"hang", syscall.SIGQUIT, 2},   // the Go runtime's
		{"hang", syscall.SIGKILL, -1},
	} {
		name := fmt.Sprintf("%s, %v", tt.mode, tt.signal)
		cmd := exec.Command(e.rdmavm, e.prog, tt.mode)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatalf("cmd.StdoutPipe: %v", err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatalf("cmd.Start: %v", err)
		}
		if n, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
			t.Fatalf("%s: read %d bytes of output, %v, want \"ready\"", name, n, err)
		}
		qemu := qemus(cmd.Process.Pid)
		if len(qemu) != 1 {
			t.Errorf("%s: child processes %v, want one", name, qemu)
		}
		start := time.Now()
		cmd.Process.Signal(tt.signal)
		io.Copy(io.Discard, stdout)
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != tt.status {
			t.Errorf("%s: rdmavm = status %d, want %d", name, got, tt.status)
		}
		for _, pid := range qemu {
			for alive(pid) && time.Since(start) < 20*time.Second {
				time.Sleep(20 * time.Millisecond)
			}
			if alive(pid) {
				t.Errorf("%s: QEMU (%d) is still running", name, pid)
			}
		}
	}
}

// qemus returns the child processes of pid.
func qemus(pid int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, s := range stats {
		b, _ := os.ReadFile(s)
		var child, parent int
		var state string
		i := bytes.LastIndexByte(b, ')')
		if i < 0 {
			continue
		}
		fmt.Sscan(string(b), &child)
		fmt.Sscan(string(b[i+1:]), &state, &parent)
		if parent == pid {
			pids = append(pids, child)
		}
	}
	return pids
}

// alive reports whether a process is running. A zombie is not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	i := bytes.LastIndexByte(b, ')')
	return err == nil && i > 0 && !strings.HasPrefix(string(b[i+1:]), " Z")
}

// TestModules loads modules with parameters, by the option and by modprobe in the guest.
func TestModules(t *testing.T) {
	e := newE2E(t)
	const script = `modprobe dummy numdummies=2; echo $? $(cd /sys/class/net; echo bond[0-9] dummy*)
modprobe -r dummy; echo $? $(cd /sys/class/net; echo dummy*)
modprobe -a nosuch; echo $?
modprobe -q nosuch; echo $?`
	out, stderr, status := e.run(nil, "-modules", "bonding max_bonds=3", "--", "sh", "-c", script)
	if want := "0 bond0 bond1 bond2 dummy0 dummy1\n0 dummy*\n1\n1\n"; out != want || status != 0 {
		t.Errorf("got %q, status %d, want %q", out, status, want)
	}
	if strings.Count(stderr, "modprobe: nosuch: no such module") != 1 {
		t.Errorf("stderr is %q, want one message of modprobe", stderr)
	}
	if _, stderr, status = e.run(nil, "-modules", "unix a=1", "--", "true"); status == 0 || !strings.Contains(stderr, "unix is built into the kernel") {
		t.Errorf("parameters of a built-in module: status %d, %q", status, stderr)
	}
}
