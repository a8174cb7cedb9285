// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"purerdma/test/pairing"
)

// refusedStream is the output of a client of rsockets that found no listener.
const refusedStream = "Connection refused"

// streamHead is the head of the table that rstream and riostream print.
const streamHead = "name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer\n"

// streamTable is the whole table, which has a row for each test.
var streamTable = regexp.MustCompile("^" + streamHead + `(\S+ +\S+ +\S+ +\S+ +\S+ +\d+\.\d\ds +\d+\.\d\d +\d+\.\d\d\n)+$`)

// measured is the part of a row that differs from run to run.
var measured = regexp.MustCompile(`\d+\.\d\ds +\d+\.\d\d +\d+\.\d\d\n`)

// streamFlags are the command lines of both sides. Together they have the options of the programs, except -S all and the
// tests without -I, -C and -S, which take long, and -f gid, which no RoCE or iWARP device has.
var streamFlags = map[string][]string{
	"rstream": {
		"-I 200 -C 1 -S 64 -T b -T v", "-I 3 -C 100 -S 10000 -T b -T v", "-B 100000 -I 2 -C 1000 -S 500 -T b -T v",
		"-I 2 -C 100 -S 5000 -T a -T v", "-I 2 -C 100 -S 5000 -T n -T v", "-I 2 -C 100 -S 5000 -T r -T v",
		"-I 2 -C 100 -S 5000 -T s -T v", "-I 2 -C 100 -S 5000 -T s -T f -T a",
		"-i 0 -I 20 -C 2 -S 64 -T v", "-i 32 -I 20 -C 2 -S 32 -T v", "-k 5 -I 2 -C 10 -S 1000", "-f ip -I 2 -C 10 -S 1000",
	},
	"riostream": {
		"-I 20 -C 2 -S 10000 -T b -T v", "-I 2 -C 100 -S 5000 -T a -T v", "-I 2 -C 100 -S 5000 -T n -T v",
		"-i 0 -B 100000 -f ip -I 20 -C 2 -S 64 -T v",
	},
}

// TestStreams runs every pairing of rstream and riostream. Both sides verify each byte. Their tables differ in the
// measurements only.
func TestStreams(t *testing.T) {
	for name, flags := range streamFlags {
		ours, theirs := tool(t, name)
		for _, pair := range pairs(ours, theirs) {
			for _, f := range flags {
				if pair[1].Name == "C" && strings.Contains(f, "-T a") {
					continue // it can fail at the end of a test (docs/reference/driver-faults.md)
				}
				t.Run(fmt.Sprintf("%s %s-%s %s", name, pair[0].Name, pair[1].Name, f), func(t *testing.T) {
					path := paths(t)[0]
					args := append(strings.Fields(f), "-p", newPort())
					meeting{
						server: pair[0], serverArgs: append([]string{"-b", path.Server}, args...),
						client: pair[1], clientArgs: append([]string{"-s", path.Server}, args...),
						refused: refusedStream,
						check: func(server, client pairing.Output) error {
							keepAlive := strings.Contains(f, "-k 5")
							got, served := printedTable(client, keepAlive), printedTable(server, keepAlive)
							if got == "" || got != served {
								return errors.New("the tables of both sides are not the same, apart from the measurements")
							}
							return nil
						},
					}.run(t)
				})
			}
		}
	}
}

// printedTable returns the table that a program has printed without the measurements, and "" if it has printed
// anything else. With keepAlive, a program prints the time for each socket. The C server that forks prints the head
// twice, because its child inherits what stdio has not written.
func printedTable(o pairing.Output, keepAlive bool) string {
	table := o.Stdout
	if strings.Count(table, streamHead) == 2 {
		table = strings.TrimSuffix(table, streamHead)
	}
	if keepAlive {
		n := len(table)
		table = strings.ReplaceAll(table, "Keepalive: ON\n  time: 5\n", "")
		if len(table) == n {
			return ""
		}
	}
	if o.Status != 0 || !streamTable.MatchString(table) || o.Stderr != "" {
		return ""
	}
	return measured.ReplaceAllString(table, "\n")
}

// TestStreamsWords compares the messages for bad command lines and for look-ups that fail. If connecting fails, the C
// program rstream ends with one of several messages, and rcopy with one.
func TestStreamsWords(t *testing.T) {
	path := paths(t)[0]
	for _, name := range []string{"rstream", "riostream"} {
		t.Run(name, func(t *testing.T) {
			sameWords(t, name, "-x", "-s", "-T x", "-T as", "-k", "-s nosuch.invalid", "-s nosuch.invalid -f ip", "-b nosuch.invalid -f ip",
				"-s nosuch.invalid -f other", "-s nosuch.invalid -T r", "-f gid -s nosuch.invalid")
		})
	}
	t.Run("rcopy", func(t *testing.T) {
		sameWords(t, "rcopy", "-x", "-p", "one", "/nosuch "+path.Server, "/dev/null nosuch.invalid", "/dev/null "+path.Server+":/nosuch -p "+newPort())
	})
}

// TestRcopy copies a file in every pairing and compares the contents.
func TestRcopy(t *testing.T) {
	ours, theirs := tool(t, "rcopy")
	for _, pair := range pairs(ours, theirs) {
		t.Run(pair[0].Name+"-"+pair[1].Name, func(t *testing.T) {
			path, port, dir := paths(t)[0], newPort(), t.TempDir()
			source, dest := filepath.Join(dir, "source"), filepath.Join(dir, "dest")
			want := make([]byte, 3_000_001)
			rand.Read(want)
			if err := os.WriteFile(source, want, 0o600); err != nil {
				t.Fatalf("os.WriteFile: %v", err)
			}
			meeting{
				server: pair[0], serverArgs: []string{"-p", port}, serverStays: true,
				client: pair[1], clientArgs: []string{source, path.Server + ":" + dest, "-p", port},
				refused: refusedStream,
				check: func(server, client pairing.Output) error {
					if client.Status != 0 || !strings.HasPrefix(client.Stdout, "opening...transferring...closing...done\n3000001 bytes in ") {
						return fmt.Errorf("client: status %d, printed %q and %q", client.Status, client.Stdout, client.Stderr)
					}
					if want := "client: " + path.Client + "\nopening: " + dest + ", transferring...3000001 bytes..."; !strings.Contains(server.Stdout, want) {
						return fmt.Errorf("server: printed %q, want %q in it", server.Stdout, want)
					}
					got, err := os.ReadFile(dest)
					if !bytes.Equal(got, want) {
						return fmt.Errorf("the copy has %d bytes, %v, and differs from the source", len(got), err)
					}
					return nil
				},
			}.run(t)
		})
	}
}
