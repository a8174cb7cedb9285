// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hwcheck

import (
	"strings"
	"syscall"
	"testing"

	"purerdma/internal/hwreport"
	"purerdma/uverbs"
)

// closedKernel is a kernel whose devices a user may not open.
type closedKernel struct {
	uverbs.Kernel
	err error
}

// Open implements uverbs.Kernel.
func (k closedKernel) Open(uverbs.DeviceInfo) (uverbs.Transport, error) { return nil, k.err }

// TestDeviceWithoutPermission checks that a user who may not open the device skips all checks. Another error is a failure.
func TestDeviceWithoutPermission(t *testing.T) {
	for err, want := range map[error]hwreport.Status{syscall.EACCES: hwreport.Skip, syscall.EPERM: hwreport.Skip, syscall.EIO: hwreport.Fail} {
		for _, id := range []string{"send-sizes", "kernel-answers"} {
			_, target := model(t)
			target.Host.Kernel = closedKernel{target.Host.Kernel, err}
			check, _ := Find(id)
			r := check.Run(t.Context(), target)
			if r.Status != want || !strings.Contains(r.Reason, err.Error()) {
				t.Errorf("Run(%s) after %v = %s: %s, want %s", id, err, r.Status, r.Reason, want)
			}
		}
	}
}

// TestLockedMemory checks that a check that exceeds the limit on locked memory is skipped.
func TestLockedMemory(t *testing.T) {
	for reason, want := range map[string]hwreport.Status{
		"register: cannot allocate memory (RLIMIT_MEMLOCK is 65536 bytes: run prlimit)": hwreport.Skip,
		"register: cannot allocate memory":                                              hwreport.Fail,
	} {
		_, target := model(t)
		check := Check{ID: "memory", do: func(tr *trial) { tr.fail("%s", reason) }}
		if r := check.Run(t.Context(), target); r.Status != want || r.Reason != reason {
			t.Errorf("Run() with the error %q = %s: %s, want %s", reason, r.Status, r.Reason, want)
		}
	}
}
