// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"purerdma/cmd/internal/hwcheck"
	"purerdma/internal/hwreport"
	"purerdma/internal/vmtest"
)

// unprivileged is the ID of a user and of a group without rights.
const unprivileged = 65534

// runAsUser runs checks as a user without capabilities.
func runAsUser(t *testing.T, h vmtest.Host, only string, flags ...string) (int, *hwreport.Report) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rdmahw-user-*") // TMPDIR may be in a directory of another user
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, unprivileged, unprivileged); err != nil {
		t.Fatalf("os.Chown: %v", err)
	}
	file := filepath.Join(dir, "report.tar.gz")
	args := []string{"run", "-only", only, "-minutes", minutes, "-d", h.Device, "-a", h.IPv4.String(), "-o", file}
	cmd := programCommand(append(args, flags...)...)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	status, _ := runProgram(t, cmd)
	r, _ := readReport(t, file)
	return status, r
}

// TestVMUser runs all checks as a user without capabilities, also the destructive ones. The user opens the device, but a check that
// needs more rights is skipped.
func TestVMUser(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	vmtest.VLAN(t, vlanID, h)
	only := ids(false, false)
	for _, c := range hwcheck.All() {
		if c.Destructive {
			only += "," + c.ID
		}
	}
	status, r := runAsUser(t, h, only, "-destructive")
	wantResults(t, here(t, "user"), only, status, r)
}

// TestVMUserRights takes rights from the user. The checks that need them are skipped with the reason, and the other ones pass.
func TestVMUserRights(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	iwarp := vmtest.IWARP() // only the connection manager connects QPs
	needDevice := map[string]bool{"kernel-answers": true, "send-sizes": true, "many-qps": true, "connections": true, "streams": true, "calls": true}
	needManager := map[string]bool{"address-resolution": true, "connections": true, "streams": true, "calls": true, "send-sizes": iwarp, "many-qps": iwarp}
	for _, tc := range []struct {
		name, reason string
		skipped      map[string]bool
		take         func(t *testing.T)
	}{
		{"device", "the user may not open the device", needDevice, func(t *testing.T) { forbid(t, "/dev/infiniband/uverbs*") }},
		{"manager", "no connection manager", needManager, func(t *testing.T) { forbid(t, "/dev/infiniband/rdma_cm") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.take(t)
			const only = "kernel-answers,address-resolution,send-sizes,many-qps,connections,streams,calls"
			status, r := runAsUser(t, h, only)
			if status != 0 || len(r.Results) != strings.Count(only, ",")+1 {
				t.Errorf("rdmahw run = %d with %s, want 0 and a result of each check", status, r.Summary())
			}
			for i := range r.Results {
				result := &r.Results[i]
				want, reason := hwreport.Pass, ""
				if tc.skipped[result.ID] {
					want, reason = hwreport.Skip, tc.reason
				}
				if result.Status != want || !strings.Contains(result.Reason, reason) {
					t.Errorf("rdmahw run = %s: %q, want %s %s", strings.TrimSpace(result.Line()), result.Evidence, want, reason)
				}
			}
		})
	}
}

// TestVMUserMemory runs checks as a user who may lock little memory. A check that needs more is skipped, and no check fails.
func TestVMUserMemory(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	limit := unix.Rlimit{Cur: 64 << 10, Max: 64 << 10}
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &limit, &old); err != nil { // the user inherits it
		t.Fatalf("unix.Prlimit: %v", err)
	}
	t.Cleanup(func() { unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &old, nil) })
	const only = "kernel-answers,address-resolution,send-sizes,regions,many-qps,connections"
	status, r := runAsUser(t, h, only)
	lacking := 0
	for i := range r.Results {
		result := &r.Results[i]
		switch {
		case result.Status == hwreport.Skip && strings.Contains(result.Reason, "RLIMIT_MEMLOCK is 65536 bytes"):
			lacking++
		case result.Status != hwreport.Pass:
			t.Errorf("rdmahw run = %s: %q, want PASS, or SKIP for lack of locked memory", strings.TrimSpace(result.Line()), result.Evidence)
		}
	}
	if passed := r.Count(hwreport.Pass); status != 0 || lacking == 0 || passed == 0 {
		t.Errorf("rdmahw run = %d with %s, %d skipped for lack of locked memory, want 0, some passed and some of these", status, r.Summary(), lacking)
	}
}

// forbid takes the right to open device files from all users but root, until the end of the test.
func forbid(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("filepath.Glob(%s) = %q, %v, want files", pattern, files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatalf("os.Stat: %v", err)
		}
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatalf("os.Chmod: %v", err)
		}
		t.Cleanup(func() { os.Chmod(file, info.Mode().Perm()) })
	}
}
