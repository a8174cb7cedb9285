// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmtest_test

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/internal/leak"
)

func TestMain(m *testing.M) {
	leak.Enable()
	os.Exit(m.Run())
}

// rest holds the library objects and the number of goroutines that a program may leave behind.
type rest struct {
	objects    []string
	goroutines int
}

func restNow() rest { return rest{leak.Report(), runtime.NumGoroutine()} }

// settleTime bounds the time until closed objects are released. A cancelled call finishes its
// clean-up in the background.
const settleTime = 10 * time.Second

// expectNothing waits until all objects on a Kernel are closed, and no more library objects
// and goroutines exist than before. It returns the remaining objects.
func expectNothing(k *cmtest.Kernel, before rest) (left []string) {
	return waitUntilNone(func() []string {
		left := unfinished(k, before)
		for _, o := range leak.Report() {
			if !slices.Contains(before.objects, o) {
				what, _, _ := strings.Cut(o, "\n")
				left = append(left, what)
			}
		}
		return left
	})
}

// unfinished lists the objects that programs have left on a Kernel, and reports additional
// goroutines.
func unfinished(k *cmtest.Kernel, before rest) []string {
	left := k.Left()
	if runtime.NumGoroutine() > before.goroutines {
		left = append(left, "goroutines")
	}
	return left
}

// waitUntilNone waits until check returns nothing, or until settleTime has passed. It returns the
// last result.
func waitUntilNone(check func() []string) (left []string) {
	for end := time.Now().Add(settleTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if left = check(); len(left) == 0 {
			break
		}
	}
	return left
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// TestExpectNothing checks that restNow and Left count the objects of an open connection, and
// that expectNothing finds none after it is closed.
func TestExpectNothing(t *testing.T) {
	onMachines(t, drivers, func(t *testing.T, k *cmtest.Kernel) {
		before := restNow()
		ln, client, server := pair(t, k)
		now := restNow()
		if len(now.objects) <= len(before.objects) || now.goroutines <= before.goroutines || len(k.Left()) == 0 {
			t.Errorf("connection: %d more objects, %d more goroutines, %d more kernel objects, want at least 1 of each", len(now.objects)-len(before.objects),
				now.goroutines-before.goroutines, len(k.Left()))
		}
		client.Close()
		server.Close()
		ln.Close()
		if left := expectNothing(k, before); len(left) > 0 {
			t.Errorf("left %q, want nothing", left)
		}
	})
}
