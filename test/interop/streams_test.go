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

// streamTable is the whole output of rstream and riostream for one test.
var streamTable = regexp.MustCompile(`^name {6}bytes {3}xfers {3}iters {3}total {7}time {5}Gb/sec {4}usec/xfer\ncustom +\S+ +\S+ +\S+ +\S+ +\d+\.\d\ds +\d+\.\d\d +\d+\.\d\d\n$`)

// TestStreams runs every pairing of rstream and riostream. Both sides verify each byte, and print a
// table of the same format.
func TestStreams(t *testing.T) {
	for name, flags := range map[string][]string{
		"rstream":   {"-I 200 -C 1 -S 64", "-I 3 -C 100 -S 10000", "-B 100000 -I 2 -C 1000 -S 500"},
		"riostream": {"-I 20 -C 2 -S 10000"},
	} {
		ours, theirs := tool(t, name)
		for _, pair := range pairs(ours, theirs) {
			for _, f := range flags {
				t.Run(fmt.Sprintf("%s %s-%s %s", name, pair[0].Name, pair[1].Name, f), func(t *testing.T) {
					path := paths(t)[0]
					args := append(strings.Fields(f), "-p", newPort(), "-T", "b", "-T", "v")
					meeting{
						server: pair[0], serverArgs: append([]string{"-b", path.Server}, args...),
						client: pair[1], clientArgs: append([]string{"-s", path.Server}, args...),
						refused: refusedStream,
						check: func(server, client pairing.Output) error {
							return errors.Join(printedTable("client", client), printedTable("server", server))
						},
					}.run(t)
				})
			}
		}
	}
}

func printedTable(who string, o pairing.Output) error {
	if o.Status != 0 || !streamTable.MatchString(o.Stdout) || o.Stderr != "" {
		return fmt.Errorf("%s: status %d, printed %q and %q, want a table of one row", who, o.Status, o.Stdout, o.Stderr)
	}
	return nil
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
				check: func(_, client pairing.Output) error {
					if client.Status != 0 || !strings.HasPrefix(client.Stdout, "opening...transferring...closing...done\n3000001 bytes in ") {
						return fmt.Errorf("client: status %d, printed %q and %q", client.Status, client.Stdout, client.Stderr)
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
