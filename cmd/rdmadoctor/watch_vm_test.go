// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/cm"
	"purerdma/internal/vmtest"
)

// text collects the output of a program.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// startWatch runs rdmadoctor -watch with an output. stop interrupts it and waits for its end.
func startWatch(t *testing.T, stdout io.Writer) (stop func()) {
	t.Helper()
	cmd := exec.Command(filepath.Join(filepath.Dir(os.Getenv("RPING")), "rdmadoctor"), "-watch", "-interval", "100ms")
	var errs text
	cmd.Stdout, cmd.Stderr = stdout, &errs
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", cmd.Args, err)
	}
	stop = sync.OnceFunc(func() {
		cmd.Process.Signal(os.Interrupt)
		err := cmd.Wait()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if want := 128 + int(syscall.SIGINT); !ok || exit.ExitCode() != want || errs.String() != "" {
			t.Errorf("%v = %v with messages %q, want status %d without messages", cmd.Args, err, errs.String(), want)
		}
	})
	t.Cleanup(stop)
	return stop
}

// untilOutput waits until the output matches a regular expression.
func untilOutput(t *testing.T, out *text, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(30 * time.Second); !re.MatchString(out.String()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s := out.String()
			t.Fatalf("output does not match %q after 30 s. Its end is:\n%s", pattern, s[max(0, len(s)-4000):])
		}
	}
}

// traffic sends messages on a connection between the hosts until the end of the test.
func traffic(t *testing.T, hosts []vmtest.Host, port int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ln, err := (&cm.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("%s:%d", hosts[0].IPv4, port))
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	var tasks sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		tasks.Wait()
		ln.Close()
	})
	tasks.Go(func() {
		req, err := ln.Accept(ctx)
		if err != nil {
			t.Errorf("Accept: %v", err)
			return
		}
		conn, err := req.Accept(ctx, nil, nil)
		if err != nil {
			t.Errorf("req.Accept: %v", err)
			return
		}
		<-ctx.Done()
		conn.Close()
	})
	local, err := cm.ParseAddr(fmt.Sprintf("%s:0", hosts[1].IPv4))
	if err != nil {
		t.Fatalf("ParseAddr: %v", err)
	}
	conn, err := (&cm.Dialer{LocalAddr: local}).Dial(ctx, "tcp", fmt.Sprintf("%s:%d", hosts[0].IPv4, port))
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	tasks.Go(func() {
		defer conn.Close()
		for conn.Probe(ctx) == nil {
			time.Sleep(time.Millisecond)
		}
	})
}

// activeCounter is a counter that grows with each message. siw has no counters.
var activeCounter = map[string]string{"rxe": "sent_pkts"}

// connectedState is the QP state of a connection. siw of Linux 6.1 does not set the state in its
// answer.
func connectedState() string {
	if vmtest.Driver() == "siw" {
		return "[A-Z]+"
	}
	return "RTS"
}

// TestWatch shows the connection of another process and its counters, in a file and on a terminal.
func TestWatch(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	const port = 7482
	traffic(t, hosts, port)
	client := fmt.Sprintf(`(?m)^%s +CONNECT +%s:\d+ +%s:%d +\d+ +RC +%s +\d+ +rdmadoctor`, hosts[1].Device, regexp.QuoteMeta(hosts[1].IPv4.String()),
		regexp.QuoteMeta(hosts[0].IPv4.String()), port, connectedState())
	listener := fmt.Sprintf(`(?m)^%s +LISTEN +%s:%d +- +- +- +- +\d+ +`, hosts[0].Device, regexp.QuoteMeta(hosts[0].IPv4.String()), port)
	device := fmt.Sprintf(`(?m)^%s +1 +ACTIVE +LINK_UP +%s .* %s`, hosts[0].Device, hosts[0].Interface, connectedState())

	t.Run("file", func(t *testing.T) {
		var out text
		stop := startWatch(t, &out)
		for _, pattern := range []string{client, listener, device} {
			untilOutput(t, &out, pattern)
		}
		if name := activeCounter[vmtest.Driver()]; name != "" {
			untilOutput(t, &out, fmt.Sprintf(`(?m)^%s +1 +%s +[1-9][0-9.]*/s +[1-9]`, hosts[0].Device, name))
		}
		stop()
		if strings.Contains(out.String(), "\x1b") {
			t.Error("the output to a file has escape sequences, want none")
		}
	})
	t.Run("terminal", func(t *testing.T) {
		near, far := openTerminal(t, 40, 200)
		var out text
		done := make(chan struct{})
		go func() {
			defer close(done)
			io.Copy(&out, near)
		}()
		stop := startWatch(t, far)
		far.Close()
		untilOutput(t, &out, `CONNECT +`+regexp.QuoteMeta(hosts[1].IPv4.String()))
		stop()
		<-done // reading fails with EIO when the program has ended
		s := out.String()
		if !strings.HasPrefix(s, screenAlternate+cursorHide+cursorHome) || !strings.HasSuffix(s, cursorShow+screenNormal) {
			t.Errorf("output to a terminal = %q, want it between %q and %q", s, screenAlternate, screenNormal)
		}
	})
}

// openTerminal returns the two ends of a pseudo terminal.
func openTerminal(t *testing.T, rows, columns uint16) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		// The virtual machine does not mount it.
		os.MkdirAll("/dev/pts", 0o755)
		if err := unix.Mount("devpts", "/dev/pts", "devpts", 0, "ptmxmode=0666"); err != nil {
			t.Fatalf("mount devpts: %v", err)
		}
		if near, err = os.OpenFile("/dev/pts/ptmx", os.O_RDWR, 0); err != nil {
			t.Fatalf("open a terminal: %v", err)
		}
	}
	t.Cleanup(func() { near.Close() })
	if err := unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("TIOCSPTLCK: %v", err)
	}
	n, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("TIOCGPTN: %v", err)
	}
	if far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatalf("open the other end of the terminal: %v", err)
	}
	if err := unix.IoctlSetWinsize(int(near.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.Fatalf("TIOCSWINSZ: %v", err)
	}
	return near, far
}
