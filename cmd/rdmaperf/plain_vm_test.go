// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"purerdma/internal/vmtest"
)

// TestWithoutManager runs tests of each type of connection, connected over TCP.
func TestWithoutManager(t *testing.T) {
	vmtest.Need(t)
	for _, args := range []string{
		"RC send_bw -n 700 -s 5000", "RC send_lat -n 300 -e", "RC read_bw -n 300 -q 3 -s 5000 -u 18", "RC atomic_bw -n 300", "RC write_lat -n 300 -m 256 -s 5000",
		"UC send_bw -n 700 -s 5000", "UC send_bw -n 700 -q 3 -s 8 -l 4 -e", "UC write_bw -n 300 -s 5000", "UC send_lat -n 300 -s 8", "UC write_lat -n 300 -s 8",
		"UD send_bw -n 700 -s 1000", "UD send_bw -n 700 -q 3 -s 8 -l 4 -e", "UD send_lat -n 300 -s 1000", "UD send_lat -n 300 -s 8 -e",
	} {
		t.Run(args, func(t *testing.T) {
			f := strings.SplitN(args, " ", 3)
			k, err := parseKind(f[1])
			if err != nil {
				t.Fatalf("parseKind: %v", err)
			}
			checkResult(t, k, f[2], testWay(t, f[1], "-verify -c "+f[0]+" "+f[2]))
		})
	}
}

// TestServerRefuses checks that an impossible plan fails before any data is sent.
func TestServerRefuses(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for args, want := range map[string]string{
		"send_bw -c UD -s 5000": "do not fit into a datagram",
		"send_bw -x 200":        "no such GID",
		"send_bw -d none":       "none",
		"send_bw -i 7":          "no device",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		port, ended := serving(t, ctx, hosts[0])
		var out, errs bytes.Buffer
		all := append(strings.Fields(args), "-p", port, "-B", hosts[1].IPv4.String(), hosts[0].IPv4.String())
		if status := run(ctx, all, &out, &errs); status != statusFailed || !strings.Contains(errs.String(), want) {
			t.Errorf("run(%s) = %d, stderr %s, want %d and %s", args, status, errs.String(), statusFailed, want)
		}
		cancel()
		<-ended
	}
}

// TestStrangersOnTCP checks that the server closes connections without a plan and continues. A
// client with a plan that then violates the protocol ends it.
func TestStrangersOnTCP(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	port, ended := serving(t, ctx, hosts[0])
	for _, line := range []string{"", "\n", "GET / HTTP/1.1\r\n", strings.Repeat("x", 2*maxMessage), `{"Size":1}` + "\n"} {
		conn, err := net.Dial("tcp", net.JoinHostPort(hosts[0].IPv4.String(), port))
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		conn.Write([]byte(line))
		conn.(*net.TCPConn).CloseWrite()
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the server keeps the connection after %.40q", line)
		}
		conn.Close()
	}
	select {
	case err := <-ended:
		t.Fatalf("serve has returned %v before its client", err)
	default:
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(hosts[0].IPv4.String(), port))
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer conn.Close()
	io.WriteString(conn, `{"Plan":{"test":"send_bw","connection":"UD","max_bytes":1,"qps":1,"depth":1,"list":1}}`+"\n"+`{"QP":{"QPN":4294967295}}`+"\n")
	if err := <-ended; err == nil {
		t.Error("serve = nil, want an error")
	}
}

// TestIWARPNeedsManager checks that both sides name -R without it.
func TestIWARPNeedsManager(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, args := range []string{"", "send_bw"} {
		var out, errs bytes.Buffer
		all := append(strings.Fields(args), "-d", hosts[0].Device)
		if args != "" {
			all = append(all, hosts[0].IPv4.String())
		}
		if status := run(t.Context(), all, &out, &errs); status != statusFailed || !strings.Contains(errs.String(), "use -R") {
			t.Errorf("run(%q) = %d, stderr %s, want %d and \"use -R\"", all, status, errs.String(), statusFailed)
		}
	}
}
