// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSignalsWhileConnecting checks that signals for the threads of a process, as Go's
// scheduler sends them, do not damage its peers. siw makes the TCP connection within CONNECT.
// A signal makes siw close it again, which ends the peer's listener
// (docs/reference/driver-faults.md).
func TestSignalsWhileConnecting(t *testing.T) {
	ln, d := ends(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-stopped })
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Microsecond):
			}
			signalThreads(t)
		}
	}()
	for range 50 {
		go func() {
			req, err := ln.Accept(within(t, 10*time.Second))
			if err != nil {
				return // the client reports the cause
			}
			defer req.Close()
			if conn, err := req.Accept(within(t, 10*time.Second), nil, nil); err == nil {
				<-conn.Done()
				conn.Close()
			}
		}()
		conn, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		conn.Close()
	}
}

// signalThreads sends each thread of this process the signal that Go preempts with.
func signalThreads(t *testing.T) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Errorf("os.ReadDir: %v", err)
		return
	}
	for _, thread := range threads {
		if tid, err := strconv.Atoi(thread.Name()); err == nil {
			unix.Tgkill(os.Getpid(), tid, syscall.SIGURG)
		}
	}
}
