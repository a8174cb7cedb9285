// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/oob"
	"purerdma/test/pairing"
	"purerdma/verbs"
)

// pingpong is one of the four programs.
type pingpong struct {
	name string
	size int  // size of the largest tested message.
	qps  int  // number of QPs with a line each.
	mark bool // whether -c changes the client's data
}

var pingpongs = []pingpong{
	{"ibv_rc_pingpong", 100000, 1, true},
	{"ibv_uc_pingpong", 20000, 1, true},
	{"ibv_ud_pingpong", 1000, 1, true},
	{"ibv_srq_pingpong", 20000, 16, false},
}

// gidIndex returns the index of the GID of a host's address.
func gidIndex(t *testing.T, h vmtest.Host, addr netip.Addr) string {
	t.Helper()
	dev, err := verbs.DefaultHost().Open(h.Device)
	if err != nil {
		t.Fatalf("verbs.DefaultHost().Open: %v", err)
	}
	defer dev.Close()
	g, err := dev.GIDFor(1, addr)
	if err != nil {
		t.Fatalf("dev.GIDFor: %v", err)
	}
	return strconv.Itoa(int(g.Index))
}

var (
	hexNumber = regexp.MustCompile(`0x[0-9a-f]{6}`)
	decimals  = regexp.MustCompile(`\d+\.\d\d\b`)
)

// shape returns an output without the numbers that differ between runs.
func shape(s string) string {
	return decimals.ReplaceAllString(hexNumber.ReplaceAllString(s, "0xN"), "F")
}

// lines returns the expected output of a side without these numbers.
func (p pingpong) lines(own, other netip.Addr, size, iters int) string {
	gid := func(a netip.Addr) string { return netip.AddrFrom16(a.As16()).String() }
	sep := ","
	if p.name == "ibv_ud_pingpong" {
		sep = ":"
	}
	return strings.Repeat(fmt.Sprintf("  local address:  LID 0x0000, QPN 0xN, PSN 0xN%s GID %s\n", sep, gid(own)), p.qps) +
		strings.Repeat(fmt.Sprintf("  remote address: LID 0x0000, QPN 0xN, PSN 0xN, GID %s\n", gid(other)), p.qps) +
		fmt.Sprintf("%d bytes in F seconds = F Mbit/sec\n%d iters in F seconds = F usec/iter\n", 2*size*iters, iters)
}

// addressLines returns the address lines with a prefix, as one text.
func addressLines(o pairing.Output, begin string) string {
	var s strings.Builder
	for line := range strings.Lines(o.Stdout) {
		if rest, ok := strings.CutPrefix(line, "  "+begin+" address:"); ok {
			s.WriteString(strings.TrimSpace(strings.Replace(rest, ": GID", ", GID", 1)) + "\n")
		}
	}
	return s.String()
}

// TestPingpong runs every program in both roles against the C program and itself. It covers
// polling and events, IPv4 and IPv6 addresses, inline messages, messages of many packets, and
// verified data.
func TestPingpong(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, p := range pingpongs {
		ours, theirs := tool(t, p.name)
		for _, pair := range pairs(ours, theirs) {
			for _, tc := range []struct {
				flags string
				size  int
				iters int
				v6    bool
			}{
				{"-c", p.size, 50, false},
				{"-c -e", p.size, 50, true},
				{"-r 20", 16, 200, false},
			} {
				from := [2]netip.Addr{hosts[0].IPv4, hosts[1].IPv4}
				if tc.v6 {
					from = [2]netip.Addr{hosts[0].IPv6, hosts[1].IPv6}
				}
				t.Run(fmt.Sprintf("%s %s-%s %s -s %d", p.name, pair[0].Name, pair[1].Name, tc.flags, tc.size), func(t *testing.T) {
					port := newPort()
					args := func(i int) []string {
						return append(strings.Fields(tc.flags), "-d", hosts[i].Device, "-g", gidIndex(t, hosts[i], from[i]),
							"-p", port, "-s", strconv.Itoa(tc.size), "-n", strconv.Itoa(tc.iters))
					}
					meeting{
						server: pair[0], serverArgs: args(0), client: pair[1], clientArgs: append(args(1), "127.0.0.1"),
						refused: "Couldn't connect to 127.0.0.1:",
						check: func(server, client pairing.Output) error {
							var wrong error
							if addressLines(server, "local") != addressLines(client, "remote") || addressLines(client, "local") != addressLines(server, "remote") {
								wrong = errors.New("the sides print different addresses")
							}
							server.Stdout, client.Stdout = shape(server.Stdout), shape(client.Stdout)
							return errors.Join(wrong,
								printed("server", server, p.lines(from[0], from[1], tc.size, tc.iters)),
								printed("client", client, p.lines(from[1], from[0], tc.size, tc.iters)))
						},
					}.run(t)
				})
			}
		}
	}
}

// TestPingpongInvalidData checks that a server with -c reports wrong data of a client without
// -c.
func TestPingpongInvalidData(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, p := range pingpongs {
		if !p.mark {
			continue
		}
		ours, theirs := tool(t, p.name)
		for _, pair := range pairs(ours, theirs) {
			t.Run(p.name+" "+pair[0].Name+"-"+pair[1].Name, func(t *testing.T) {
				var want strings.Builder
				for page := 0; page*4096 < p.size; page++ {
					fmt.Fprintf(&want, "invalid data in page %d\n", page)
				}
				args := []string{"-p", newPort(), "-s", strconv.Itoa(p.size), "-n", "3"}
				meeting{
					server: pair[0], serverArgs: append(args, "-c", "-d", hosts[0].Device, "-g", gidIndex(t, hosts[0], hosts[0].IPv4)),
					client: pair[1], clientArgs: append(args, "-d", hosts[1].Device, "-g", gidIndex(t, hosts[1], hosts[1].IPv4), "127.0.0.1"),
					refused: "Couldn't connect to 127.0.0.1:",
					check: func(server, client pairing.Output) error {
						if server.Status != 0 || client.Status != 0 || !strings.HasSuffix(server.Stdout, "usec/iter\n"+want.String()) {
							return fmt.Errorf("the server's output does not end in %q", want.String())
						}
						return nil
					},
				}.run(t)
			})
		}
	}
}

// TestPingpongFlags runs without -g, where only the Go programs choose a GID, and with -N of
// either program.
func TestPingpongFlags(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, p := range pingpongs {
		ours, theirs := tool(t, p.name)
		flags := []string{"", "-n 0", "-n 1"}
		if p.name == "ibv_rc_pingpong" {
			flags = append(flags, "-N", "-N -s 8", "-m 256")
		}
		for _, extra := range flags {
			for _, pair := range [][2]pairing.Program{{ours, theirs}, {theirs, ours}, {ours, ours}} {
				t.Run(p.name+" "+pair[0].Name+"-"+pair[1].Name+" "+extra, func(t *testing.T) {
					port := newPort()
					args := func(i int) []string {
						a := append(strings.Fields(extra), "-p", port, "-d", hosts[i].Device)
						if pair[i].Name == "C" {
							a = append(a, "-g", gidIndex(t, hosts[i], hosts[i].IPv4))
						}
						return a
					}
					meeting{
						server: pair[0], serverArgs: args(0), client: pair[1], clientArgs: append(args(1), "localhost"),
						refused: "Couldn't connect to localhost:",
						check: func(server, client pairing.Output) error {
							if server.Status != 0 || client.Status != 0 || server.Stderr+client.Stderr != "" || addressLines(server, "local") != addressLines(client, "remote") {
								return errors.New("one side failed")
							}
							return nil
						},
					}.run(t)
				})
			}
		}
	}
}

// TestPingpongWords compares the messages for bad command lines, for unsupported features, and
// without a listener.
func TestPingpongWords(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	gid := gidIndex(t, hosts[0], hosts[0].IPv4)
	client := fmt.Sprintf(" -p %s 127.0.0.1 -d %s -g %s", newPort(), hosts[0].Device, gid)
	for _, p := range pingpongs {
		lines := []string{
			"-x", "-p", "--foo", "--events=1", "--ib", "-p 70000", "-i 0", "a b", "-d nosuch", "-r 40000" + client,
			"-g 20000 -d " + hosts[0].Device, "-i 9" + client, client, "-e" + client, "-d " + hosts[0].Device + " nosuch.invalid -g " + gid,
		}
		switch p.name {
		case "ibv_rc_pingpong":
			lines = append(lines, "-m 77", "-o"+client, "-O"+client, "-t"+client, "-j"+client, "-o -j", "-P", "-o -P"+client)
		case "ibv_ud_pingpong":
			lines = append(lines, "-s 100000"+client, "-o", "-m 256")
		case "ibv_srq_pingpong":
			lines = append(lines, "-q 600", "-q 300 -r 1000", "-o"+client, "-s 0")
		}
		ours, theirs := tool(t, p.name)
		for _, args := range lines {
			t.Run(p.name+" "+args, func(t *testing.T) {
				t.Parallel()
				want, got := words(t, theirs, args), words(t, ours, args)
				// The C library's driver of rxe does not query the kernel, which supports it.
				want.Stderr = strings.Replace(want.Stderr, "Couldn't prefetch MR(95). Continue anyway\n", "", 1)
				if shape(got.Stdout) != shape(want.Stdout) || got.Status != want.Status || !hasLines(got.Stderr, want.Stderr) {
					t.Errorf("Go: %v\nC: %v", got, want)
				}
			})
		}
	}
}

// TestPingpongHostile connects to servers before their client does. A server closes a
// connection without addresses and then serves its client. A connection with addresses counts
// as the client and ends the server with an error.
func TestPingpongHostile(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, p := range pingpongs {
		ours, _ := tool(t, p.name)
		for name, tc := range map[string]struct {
			says   string
			client bool // whether the server accepts it as the client
		}{
			"leaves":     {"", false},
			"part":       {"0000:0000", false},
			"nonsense":   {strings.Repeat("GET / HTTP/1.0\r\n", 1000), false},
			"no GID":     {strings.Repeat("0000:000011:000000:00000000000000000000000000000000\x00", 256), true},
			"no confirm": {strings.Repeat("0000:000011:000000:00000000000000000000ffff0a080102\x00", 256) + "none\x00", true},
		} {
			t.Run(p.name+" client "+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				port := newPort()
				server, err := pairing.Start(ctx, ours, "-d", hosts[0].Device, "-p", port, "-n", "10")
				if err != nil {
					t.Fatalf("pairing.Start: %v", err)
				}
				var conn net.Conn
				for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
					if conn, err = net.Dial("tcp", "127.0.0.1:"+port); err == nil || time.Since(start) > startWait {
						break
					}
				}
				if err != nil {
					t.Fatalf("dial: %v\nserver: %v", err, server.Output())
				}
				conn.Write([]byte(tc.says))
				conn.(*net.TCPConn).CloseWrite()
				status := 1
				if !tc.client {
					status = 0
					client, err := pairing.Start(ctx, ours, "-d", hosts[1].Device, "-p", port, "-n", "10", "127.0.0.1")
					if err != nil {
						t.Fatalf("pairing.Start: %v", err)
					}
					if out, err := client.Wait(toolLimit); err != nil || out.Status != 0 {
						t.Errorf("client: %v, %v, want status 0", err, out)
					}
				}
				out, err := server.Wait(toolLimit)
				conn.Close()
				if err != nil || out.Status != status || out.Stderr == "" || strings.Contains(out.Stderr, "panic") {
					t.Errorf("server: %v, %v, want status %d", err, out, status)
				}
			})
		}
	}
}

// TestPingpongHostileServers checks that clients of hostile servers end soon with an error. If
// the address has no QP, there is no answer, which TestSilentPeer of cmd/internal/pingpong
// covers.
func TestPingpongHostileServers(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	for _, p := range pingpongs {
		ours, _ := tool(t, p.name)
		for name, says := range map[string]string{
			"leaves":   "",
			"part":     "0000:0000",
			"nonsense": strings.Repeat("HTTP/1.0 400 Bad Request\r\n", 1000),
			"no GID":   strings.Repeat("0000:000011:000000:00000000000000000000000000000000\x00", 256),
			"huge":     strings.Repeat("0", 1<<20),
		} {
			t.Run(p.name+" server "+name, func(t *testing.T) {
				t.Parallel() // most of the time is the server's half second
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatalf("net.Listen: %v", err)
				}
				defer ln.Close()
				go func() {
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					defer conn.Close()
					go conn.Write([]byte(says))
					io.Copy(io.Discard, io.LimitReader(conn, int64(oob.AddressLen))) // the client's first message
					if len(says) == 0 {
						return
					}
					time.Sleep(500 * time.Millisecond)
				}()
				_, port, _ := net.SplitHostPort(ln.Addr().String())
				client, err := pairing.Start(ctx, ours, "-d", hosts[0].Device, "-p", port, "127.0.0.1")
				if err != nil {
					t.Fatalf("pairing.Start: %v", err)
				}
				out, err := client.Wait(toolLimit)
				if err != nil || out.Status != 1 || out.Stderr == "" || strings.Contains(out.Stderr, "panic") {
					t.Errorf("client: %v, %v, want status 1", err, out)
				}
			})
		}
	}
}
