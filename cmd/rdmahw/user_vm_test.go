// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"purerdma/cmd/internal/hwcheck"
	"purerdma/internal/vmtest"
)

// unprivileged is the ID of a user and of a group without rights.
const unprivileged = 65534

// TestVMUser runs all checks as a user without capabilities, also the destructive ones. The user opens the device, but a check that
// needs more rights is skipped.
func TestVMUser(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	vmtest.VLAN(t, vlanID, h)
	dir, err := os.MkdirTemp("/tmp", "rdmahw-user-*") // TMPDIR may be in a directory of another user
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, unprivileged, unprivileged); err != nil {
		t.Fatalf("os.Chown: %v", err)
	}
	only := ids(false)
	for _, c := range hwcheck.All() {
		if c.Destructive {
			only += "," + c.ID
		}
	}
	file := filepath.Join(dir, "report.tar.gz")
	cmd := programCommand("run", "-destructive", "-only", only, "-minutes", minutes, "-d", h.Device, "-a", h.IPv4.String(), "-o", file)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
	status, _ := runProgram(t, cmd)
	r, _ := readReport(t, file)
	wantResults(t, here(t, "user"), only, status, r)
}
