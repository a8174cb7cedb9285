// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLock: whoever waits gets the lock in the order of coming, but for those who have
// given up, and is told what it waits for.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	unlock, err := lock(ctx, path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	impatient, giveUp := context.WithCancelCause(ctx)
	told := writer(func(b []byte) {
		said += string(b)
		giveUp(errors.New("no more time"))
	})
	if _, err := lock(impatient, path, told); err == nil || err.Error() != "no more time" {
		t.Errorf("a second lock: %v", err)
	}
	if !strings.Contains(said, "waiting for another rdmavm") {
		t.Errorf("it was told %q", said)
	}
	order := make(chan int, 5)
	for i := range cap(order) {
		go func() {
			unlock, err := lock(ctx, path, io.Discard)
			if err != nil {
				t.Errorf("lock %d: %v", i, err)
			} else {
				defer unlock()
			}
			order <- i
		}()
		awaitWaiters(i + 2) // the impatient one has its place, too
	}
	select {
	case i := <-order:
		t.Fatalf("%d has the lock, too", i)
	default:
	}
	unlock()
	for want := range cap(order) {
		if got := <-order; got != want {
			t.Errorf("the lock is %d's, it should be %d's", got, want)
		}
	}
}

// writer is an io.Writer.
type writer func(b []byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// awaitWaiters waits until n calls of flock in this process wait. Not every kernel
// shows those that wait for one that waits: then half a second has to do.
func awaitWaiters(n int) {
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		locks, _ := os.ReadFile("/proc/locks")
		waiting := 0
		for line := range strings.Lines(string(locks)) {
			f := strings.Fields(line) // "1: -> FLOCK ADVISORY WRITE pid"
			if len(f) > 5 && f[1] == "->" && f[2] == "FLOCK" && f[5] == strconv.Itoa(os.Getpid()) {
				waiting++
			}
		}
		if waiting >= n {
			return
		}
	}
}
