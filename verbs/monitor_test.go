// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"os"
	"strconv"
	"testing"

	"purerdma/internal/cdev"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestPollLetsOthersRun checks a goroutine that an event has woken and that polls from then on.
// It must not delay other goroutines if there are processors only for pollers. Such a goroutine
// makes no ordinary system call. It therefore used to keep the runtime's monitor thread asleep,
// for up to a minute.
func TestPollLetsOthersRun(t *testing.T) {
	for procs := 1; procs <= 2; procs++ {
		t.Run(strconv.Itoa(procs), func(t *testing.T) {
			rt := fakeRoute()
			dev := openDevice(t, rt.h, rt.a.Device)
			vmtest.OthersRun(t, procs, func(event *os.File) (wait, step func()) {
				conn, err := event.SyscallConn()
				if err != nil {
					t.Fatalf("File.SyscallConn: %v", err)
				}
				cq, wcs := createCQ(t, dev, verbs.CQConfig{}), make([]verbs.WC, 1)
				wait = func() {
					conn.Read(func(fd uintptr) bool {
						_, err := cdev.ReadRaw(fd, make([]byte, 1))
						return err == nil
					})
				}
				return wait, func() {
					if n, err := cq.Poll(wcs); n > 0 || err != nil {
						t.Errorf("CQ.Poll = %d, %v, want 0, nil", n, err)
					}
				}
			})
		})
	}
}
