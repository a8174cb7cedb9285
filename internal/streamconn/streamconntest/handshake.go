// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streamconntest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
)

// Listener is the part of a listener that Handshakes and Addresses use.
type Listener interface {
	Accept(ctx context.Context) (io.Closer, error)
	Addr() net.Addr
	Close() error
}

// Handshakes makes commands of a listener's process fail while it answers a request. The failure is logged,
// and the next peer is accepted. Only a lack of descriptors while the request is taken is an error of Accept,
// and it is temporary. Handshakes connects by dial.
func Handshakes(t *testing.T, listen func(cm.ListenConfig) (Listener, error), dial func(ctx context.Context, d cm.Dialer, to string) (io.Closer, error)) {
	for _, tc := range []struct {
		device  string
		command string
		errno   syscall.Errno
		record  string // in the log, "" if Accept returns the error instead
	}{
		{"rxe0", "UVERBS_METHOD_QP_CREATE", syscall.ENOMEM, "connect request failed"},
		{"rxe0", "UVERBS_METHOD_QP_CREATE", syscall.EPERM, "connect request failed"},
		{"rxe0", "mmap", syscall.ENOMEM, "connect request failed"},
		{"rxe0", "IB_USER_VERBS_CMD_MODIFY_QP", syscall.EINVAL, "connect request failed"},
		{"rxe0", "open", syscall.EACCES, "connect request refused"}, // by package cm
		{"rxe0", "open", syscall.EMFILE, ""},
		{"rdma_cm", "open", syscall.EMFILE, ""},
	} {
		t.Run(tc.device+" "+tc.command+" "+tc.errno.Error(), func(t *testing.T) {
			k := RXE(t)
			var first, armed atomic.Bool
			first.Store(true)
			k.OnCommand(func(c cmtest.Command) error {
				if c.Device != tc.device || c.Name != tc.command || !armed.Load() {
					return nil
				}
				if tc.errno == syscall.EMFILE {
					return &fs.PathError{Op: c.Name, Path: "/dev/infiniband/" + c.Device, Err: tc.errno}
				}
				return tc.errno
			})
			host, records := k.Host(), make(records, 100)
			host.Log = slog.New(slog.NewTextHandler(records, &slog.HandlerOptions{Level: slog.LevelWarn}))
			ln, err := listen(cm.ListenConfig{Host: host})
			if err != nil {
				t.Fatalf("Listen() = %v", err)
			}
			defer ln.Close()
			k.OnMessage(func(m cmtest.Message) (cmtest.Fate, time.Duration) {
				if m.Type == cmtest.REQ && first.CompareAndSwap(true, false) {
					armed.Store(true) // the dialing side has opened its files
				}
				return cmtest.Arrives, 0
			})
			local, err := cm.ParseAddr("10.0.0.2:0")
			if err != nil {
				t.Fatalf("ParseAddr() = %v", err)
			}
			connect := func() (io.Closer, error) {
				return dial(Deadline(t), cm.Dialer{Host: k.Host(), LocalAddr: local}, ln.Addr().String())
			}
			accepted := make(chan error, 2)
			accept := func() {
				conn, err := ln.Accept(Deadline(t))
				if err == nil {
					conn.Close()
				}
				accepted <- err
			}
			go accept()
			if conn, err := connect(); err == nil {
				conn.Close()
				t.Error("dial() of a listener whose command fails succeeded, want an error")
			}
			if tc.record == "" {
				err := <-accepted
				temporary, ok := errors.AsType[interface {
					error
					Temporary() bool
				}](err)
				if !ok || !errors.Is(err, tc.errno) || !temporary.Temporary() {
					t.Errorf("Accept() = %v, want a temporary error that wraps %v", err, tc.errno)
				}
				go accept()
			} else {
				record := records.next(t)
				for _, want := range []string{tc.record, "remote=10.0.0.2:", tc.errno.Error()} {
					if !strings.Contains(record, want) {
						t.Errorf("log = %q, want %q in it", record, want)
					}
				}
				if tc.record == "connect request failed" && !strings.Contains(record, "operation=accept") {
					t.Errorf("log = %q, want the operation", record)
				}
			}
			armed.Store(false)
			conn, err := connect()
			if err != nil {
				t.Errorf("dial() after a failed handshake = %v", err)
			} else {
				defer conn.Close()
			}
			if err := <-accepted; err != nil {
				t.Errorf("Accept() after a failed handshake = %v", err)
			}
		})
	}
}

// records has the records of a log.
type records chan string

// Write implements io.Writer.
func (r records) Write(b []byte) (int, error) {
	r <- string(b)
	return len(b), nil
}

// next waits for a record.
func (r records) next(t *testing.T) string {
	t.Helper()
	select {
	case record := <-r:
		return record
	case <-Deadline(t).Done():
		t.Fatal("no failure was logged")
		return ""
	}
}
