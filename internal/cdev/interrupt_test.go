// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cdev

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestConn reads by the RawConn of a file, interrupts such reads, and closes the file.
func TestConn(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatalf("unix.Pipe2: %v", err)
	}
	defer unix.Close(p[1])
	f, err := New(p[0], "pipe")
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer f.Close()

	read := func(try func(fd uintptr) bool) error { return f.ReadDone(f.Conn().Read(try), try) }
	// Data that arrives during the first try is not missed.
	tries := 0
	err = read(func(fd uintptr) bool {
		if tries++; tries == 1 {
			unix.Write(p[1], []byte{1})
			return false
		}
		n, err := unix.Read(int(fd), make([]byte, 1))
		return n == 1 && err == nil
	})
	if err != nil || tries != 2 {
		t.Errorf("Read = %v after %d tries, want nil after 2", err, tries)
	}

	never := func(uintptr) bool { return false }
	time.AfterFunc(10*time.Millisecond, f.Interrupt)
	for range 2 { // the interrupt stays in effect
		if err := read(never); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("interrupted Read = %v, want %v", err, os.ErrDeadlineExceeded)
		}
	}
	f.Resume()
	time.AfterFunc(10*time.Millisecond, func() { f.Close() })
	if err := read(never); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read of a closed file = %v, want %v", err, net.ErrClosed)
	}
}
