// SPDX-License-Identifier: Apache-2.0

package pairing

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLines(t *testing.T) {
	const want = "ping data: rdma-ping-0: ABCDEFGHI\nping data: rdma-ping-1: BCDEFGHIJ\n"
	if got := Lines("ping data: ", 23, 2); got != want {
		t.Errorf("Lines = %q, want %q", got, want)
	}
}

func TestSameLines(t *testing.T) {
	for _, tc := range []struct {
		got, want string
		same      bool
	}{
		{"", "", true}, {"a\n", "a\n", true}, {"a\n", "", false}, {"", "a\n", false},
		{"a\nb\n", "a\n", false}, {"a\n", "a\nb\n", false}, {"a", "a\n", false}, {"a\nb\n", "a\nc\n", false},
	} {
		if err := sameLines(tc.got, tc.want); (err == nil) != tc.same {
			t.Errorf("sameLines(%q, %q) = %v", tc.got, tc.want, err)
		}
	}
}

// TestWrongLine checks that the error distinguishes wrong data from output that ends too early.
func TestWrongLine(t *testing.T) {
	for got, want := range map[string]string{
		"": "0 lines, want 2", "ab\n": "1 lines, want 2", "ab\nc": "ends within line 2", "ab\nx": `line 2 is "x"`, "ax\ncd\n": `line 1 is "ax\n"`,
		"ab\ncd\nef\n": `line 3 is "ef\n"`,
	} {
		if err := sameLines(got, "ab\ncd\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("sameLines(%q) = %v, want an error with %q", got, err, want)
		}
	}
}

// TestRefusedClientHangs restarts a client that hangs after a refusal.
func TestRefusedClientHangs(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "flag")
	script := fmt.Sprintf("[ -e %[1]s ] && { echo done; exit 0; }; touch %[1]s; echo rdma_connect: Connection refused >&2; exec sleep 1000", flag)
	out, err := RunWhile(t.Context(), Program{Name: "C", Path: "/bin/sh"}, time.Minute, refused, "-c", script)
	if err != nil || out.Status != 0 || out.Stdout != "done\n" {
		t.Errorf("RunWhile = %v, %v, want done and no error", out, err)
	}
}

// TestStartRefusedClientHangs is like TestRefusedClientHangs for a client that pings until it
// is stopped.
func TestStartRefusedClientHangs(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "flag")
	script := fmt.Sprintf("[ -e %[1]s ] && { echo ping; exec sleep 1000; }; touch %[1]s; echo rdma_connect: Connection refused >&2; exec sleep 1000", flag)
	name := filepath.Join(t.TempDir(), "client")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	proc, err := StartClient(t.Context(), Program{Name: "C", Path: name}, "10.8.0.1", 1)
	if err != nil {
		t.Fatalf("StartClient: %v", err)
	}
	if out := proc.Output(); out.Stdout != "ping\n" {
		t.Errorf("the client printed %q, want a ping", out.Stdout)
	}
}

func TestGuestPaths(t *testing.T) {
	got, err := guestPaths("rxe0,eth8,10.8.0.1,fd00:8::1 rxe1,eth9,10.8.1.2,fd00:9::2")
	want := []Path{{"10.8.0.1", "10.8.1.2"}, {"fd00:8::1", "fd00:9::2"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("guestPaths = %v, %v, want %v", got, err, want)
	}
	if _, err := guestPaths("rxe0,eth8,10.8.0.1,fd00:8::1"); err == nil {
		t.Error("guestPaths with one host = nil error")
	}
}

func TestHostPaths(t *testing.T) {
	sys := t.TempDir()
	if _, err := hostPaths(sys); err == nil {
		t.Error("hostPaths without a device = nil error")
	}
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(sys, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(file, []byte(content+"\n"), 0o666); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	write("mlx5_0/ports/1/state", "1: DOWN")
	write("mlx5_0/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:c0a8:0001")
	if got, err := hostPaths(sys); err == nil {
		t.Errorf("hostPaths with a port that is down = %v, want an error", got)
	}
	write("mlx5_1/ports/1/state", "4: ACTIVE")
	write("mlx5_1/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001")
	write("mlx5_1/ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000")
	write("mlx5_1/ports/1/gids/2", "0000:0000:0000:0000:0000:ffff:0a08:0001")
	write("mlx5_1/ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:0a08:0001")
	write("mlx5_1/ports/1/gids/4", "fd00:0000:0000:0000:0000:0000:0000:0001")
	got, err := hostPaths(sys)
	want := []Path{{"10.8.0.1", "10.8.0.1"}, {"fd00::1", "fd00::1"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("hostPaths = %v, %v, want %v", got, err, want)
	}
}

// TestMuchOutput checks that a program with endless output ends without exhausting memory.
func TestMuchOutput(t *testing.T) {
	proc, err := Start(t.Context(), Program{Name: "none", Path: "/bin/cat"}, "/dev/zero")
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	out, err := proc.Wait(30 * time.Second)
	if err != nil || out.Status != 128+int(syscall.SIGPIPE) || len(out.Stdout) > maxOutput || len(out.Stdout) < maxOutput/2 {
		t.Errorf("Wait = %v, status %d, %d bytes of output, want SIGPIPE and limited output", err, out.Status, len(out.Stdout))
	}
}

// TestClosedChannel checks that the race at the end of rdma-core's rping is no failure, and that other
// failures are.
func TestClosedChannel(t *testing.T) {
	const race = `echo "client DISCONNECT EVENT...
rdma_get_cm_event: Bad file descriptor" >&2; exit 255`
	for _, c := range []struct {
		name, script string
		want         int
	}{
		{"C", race, 0},
		{"Go", race, 255},
		{"C", "echo wait for RDMA_READ_ADV >&2; " + race, 255},
		{"C", "echo client DISCONNECT EVENT... >&2; exit 255", 255},
	} {
		p, err := Start(t.Context(), Program{Name: c.name, Path: "/bin/sh"}, "-c", c.script)
		if err != nil {
			t.Fatalf("Start: %v", err)
		}
		if out, err := p.Wait(time.Minute); err != nil || out.Status != c.want {
			t.Errorf("Wait of %s %q = %v, %v, want status %d", c.name, c.script, out, err, c.want)
		}
	}
}
