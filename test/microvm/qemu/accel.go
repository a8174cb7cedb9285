// SPDX-License-Identifier: Apache-2.0

//go:build linux

package qemu

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/cache"
)

// selfTestLimit is the time limit of a boot that takes well under a second with KVM.
const selfTestLimit = 15 * time.Second

// Accel returns the accelerator of virtual machines. It is "kvm" if a boot has proved that KVM
// works, else "tcg", QEMU's software emulation. The existence of /dev/kvm is no proof, because
// KVM may create a VM that then dies. Accel stores the result for this QEMU, kernel and
// processor.
//
// test creates a machine whose guest only exits.
func (q *QEMU) Accel(c *cache.Cache, kernel string, progress io.Writer, test func() (*Machine, error)) (string, error) {
	switch a := os.Getenv("RDMAVM_ACCEL"); a {
	case "kvm", "tcg":
		return a, nil
	case "", "auto":
		if !q.Arch.Native() {
			return "tcg", nil
		}
	default:
		return "", fmt.Errorf("RDMAVM_ACCEL=%s: want kvm, tcg or auto", a)
	}
	if unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) != nil {
		return "tcg", nil
	}
	key := sha256.Sum256([]byte(strings.Join([]string{q.ID, kernel, processor()}, "\n")))
	path, err := c.File(c.Path("accel", fmt.Sprintf("%x", key[:8])), func(w io.Writer) error {
		m, err := test()
		if err != nil {
			return err
		}
		accel := "tcg"
		if q.boots(m) {
			accel = "kvm"
		} else {
			fmt.Fprintln(progress, "rdmavm: /dev/kvm is there but does not work with this QEMU and kernel: using software emulation")
		}
		_, err = io.WriteString(w, accel)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("test KVM: %w", err)
	}
	b, err := os.ReadFile(path)
	return string(b), err
}

// boots reports whether the machine runs under KVM to its orderly end.
func (q *QEMU) boots(m *Machine) bool {
	m.Accel = "kvm"
	p, err := q.Start(m)
	if err != nil {
		return false
	}
	select {
	case <-p.Done():
		status, _ := p.Status()
		return status == OrderlyExit
	case <-time.After(selfTestLimit):
		p.Kill()
		return false
	}
}

// processor identifies this machine's processor, its microcode and its kernel.
func processor() string {
	var id []string
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if strings.TrimSpace(line) == "" {
			break // all processors are equal
		}
		switch key, _, _ := strings.Cut(line, ":"); strings.TrimSpace(key) {
		case "vendor_id", "cpu family", "model", "stepping", "model name", "microcode", "flags":
			id = append(id, line)
		}
	}
	b, _ = os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.Join(append(id, string(b)), "")
}
