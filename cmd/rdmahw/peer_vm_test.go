// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
)

// programCommand returns a command that runs the program in RDMAHW, or by default the program of this test.
func programCommand(args ...string) *exec.Cmd {
	if path := os.Getenv("RDMAHW"); path != "" {
		return exec.Command(path, args...)
	}
	return realProgram().command(args...)
}

// startServer starts "rdmahw serve" for a host on a TCP port. stop ends it with a signal.
func startServer(t *testing.T, h vmtest.Host, port string, flags ...string) (stop func()) {
	t.Helper()
	cmd := programCommand(append([]string{"serve", "-d", h.Device, "-a", h.IPv4.String(), "-p", port}, flags...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("cmd.StdoutPipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, h.Device+" port 1, listening on ") {
		cmd.Process.Kill()
		t.Fatalf("rdmahw serve = %q, %v, %v, stderr %s, want a line with its address", line, err, cmd.Wait(), errs.String())
	}
	return func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		if got, want := cmd.ProcessState.ExitCode(), 128+int(syscall.SIGINT); got != want || errs.Len() > 0 {
			t.Errorf("rdmahw serve = %d, stderr %s, want %d and no output", got, errs.String(), want)
		}
	}
}

// withPeer runs "rdmahw run" at the second host, with "rdmahw serve" at the first, and compares the results with the table of
// exceptions. Both are processes of their own. With rdmavm -vms they are in two virtual machines.
func withPeer(t *testing.T, only string, flags ...string) {
	t.Helper()
	hosts := vmtest.Hosts(t, 2)
	sides := vmtest.Sides{
		Listen: func(ctx context.Context, address string) (net.Listener, error) {
			if !vmtest.TwoVMs() {
				address = "127.0.0.1:0" // a silent host of this virtual machine would lose its routes
			}
			return new(net.ListenConfig).Listen(ctx, "tcp", address)
		},
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
		Serve: func(ln net.Listener) func() {
			_, port, err := net.SplitHostPort(ln.Addr().String())
			if err != nil {
				t.Fatalf("net.SplitHostPort: %v", err)
			}
			if err := ln.Close(); err != nil {
				t.Fatalf("ln.Close: %v", err)
			}
			return startServer(t, hosts[0], port, flags...)
		},
		Call: func(address string) {
			file := filepath.Join(t.TempDir(), "report.tar.gz")
			args := []string{"run", "-peer", address, "-d", hosts[1].Device, "-a", hosts[1].IPv4.String(), "-only", only, "-minutes", minutes, "-o", file}
			status, out := runProgram(t, programCommand(append(args, flags...)...))
			r, _ := readReport(t, file)
			wantResults(t, here(t, "peer"), only, status, r)
			if want := fmt.Sprintf("%s (%s); report: %s\n", r.Summary(), r.Machine.Kind, file); r.Peer != "another host" || !strings.HasSuffix(out, want) {
				t.Errorf("rdmahw run = %q with the peer %q, want another host and the summary %q", out, r.Peer, want)
			}
		},
	}
	sides.Run(t, hosts[0].IPv4)
}

// runProgram runs the program, and returns its exit status and its output.
func runProgram(t *testing.T, cmd *exec.Cmd) (status int, stdout string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	t.Log(out.String())
	if status = cmd.ProcessState.ExitCode(); status == statusUsage || status == statusNoReport || status < 0 {
		t.Fatalf("cmd.Run(%q) = %v, stderr %s, want a report", cmd.Args, err, errs.String())
	}
	return status, out.String()
}

// TestVMPeer runs the checks between two devices.
func TestVMPeer(t *testing.T) {
	vmtest.VLAN(t, vlanID, vmtest.Hosts(t, 2)...)
	withPeer(t, ids(true, longtest.Enabled()))
}

// TestVMSilentPeer runs the check whose peer sets its network interface down.
func TestVMSilentPeer(t *testing.T) {
	for _, h := range vmtest.Hosts(t, 2) {
		if h.Here() {
			h.KeepConfiguration(t)
		}
	}
	withPeer(t, "peer-silent", "-destructive")
}
