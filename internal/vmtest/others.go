// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vmtest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// OthersRun checks that busy goroutines do not starve another goroutine. The busy goroutines occupy all
// procs processors after an event woke them, and the file of the other goroutine becomes ready then. Each
// busy goroutine calls its wait, which must return when a byte can be read from event. Then it calls its
// step repeatedly.
func OthersRun(t *testing.T, procs int, prepare func(event *os.File) (wait, step func())) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	event, other := pipe(t), pipe(t)
	// Another process writes, because a timer of this process would wake the runtime's monitor thread.
	script := fmt.Sprintf("sleep 0.5; for i in $(seq %d); do printf x >&3; done; sleep 0.5; printf x >&4", procs)
	writer := exec.Command("sh", "-c", script)
	writer.ExtraFiles = []*os.File{event.w, other.w}

	const patience = 20 * time.Second
	var done atomic.Bool
	took := make(chan time.Duration, procs)
	for range procs {
		wait, step := prepare(event.r)
		go func() {
			wait()
			start := time.Now()
			for !done.Load() && time.Since(start) < patience {
				step()
			}
			took <- time.Since(start)
		}()
	}
	if err := writer.Start(); err != nil {
		t.Fatalf("writer.Start(): %v", err)
	}
	defer writer.Wait()
	if _, err := other.r.Read(make([]byte, 1)); err != nil {
		t.Fatalf("Read of the other goroutine's file: %v", err)
	}
	done.Store(true)
	for range procs {
		select {
		case d := <-took:
			if d > patience/2 {
				t.Errorf("another goroutine, whose file was ready after 0.5 s, ran after %v", d)
			}
		case <-time.After(patience):
			t.Fatal("a wait for the event has not ended")
		}
	}
}

type pipeEnds struct{ r, w *os.File }

func pipe(t *testing.T) pipeEnds {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("os.Pipe(): %v", err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return pipeEnds{r, w}
}
