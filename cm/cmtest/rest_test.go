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

// rest is what a program may leave behind: objects of the library, and goroutines.
type rest struct {
	objects    []string
	goroutines int
}

func restNow() rest { return rest{leak.Report(), runtime.NumGoroutine()} }

// settleTime is how long what was closed may take to go. What a cancelled call has left to do
// goes on in the background.
const settleTime = 10 * time.Second

// expectNothing waits until a program has left nothing on a Kernel, and no more than there was
// before. It returns what is left.
func expectNothing(k *cmtest.Kernel, before rest) (left []string) {
	return settle(func() []string {
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

// unfinished lists what programs have left on a Kernel, and whether there are more goroutines
// than there were before.
func unfinished(k *cmtest.Kernel, before rest) []string {
	left := k.Left()
	if runtime.NumGoroutine() > before.goroutines {
		left = append(left, "goroutines")
	}
	return left
}

// settle waits until check returns nothing, or settleTime has passed. It returns the last result.
func settle(check func() []string) (left []string) {
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

// TestExpectNothing looks at what expectNothing does not overlook.
func TestExpectNothing(t *testing.T) {
	onMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		before := restNow()
		ln, client, server := pair(t, k)
		now := restNow()
		if len(now.objects) <= len(before.objects) || now.goroutines <= before.goroutines || len(k.Left()) == 0 {
			t.Errorf("a connection: %d objects, %d goroutines, %d things in the kernel more", len(now.objects)-len(before.objects),
				now.goroutines-before.goroutines, len(k.Left()))
		}
		client.Close()
		server.Close()
		ln.Close()
		if left := expectNothing(k, before); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}
