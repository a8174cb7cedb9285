// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
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
	var said bytes.Buffer
	impatient, giveUp := context.WithTimeoutCause(ctx, 1200*time.Millisecond, errors.New("no more time"))
	defer giveUp()
	if _, err := lock(impatient, path, &said); err == nil || err.Error() != "no more time" {
		t.Errorf("a second lock: %v", err)
	}
	if !strings.Contains(said.String(), "waiting for another rdmavm") {
		t.Errorf("it was told %q", said.String())
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
		time.Sleep(100 * time.Millisecond) // until it waits
	}
	select {
	case i := <-order:
		t.Errorf("%d has the lock, too", i)
	default:
	}
	unlock()
	for want := range cap(order) {
		if got := <-order; got != want {
			t.Errorf("the lock is %d's, it should be %d's", got, want)
		}
	}
}
