// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
)

func TestParse(t *testing.T) {
	def := options{names: tool.Names{Service: "7471", Space: cm.PortSpaceTCP}, conns: 100, retries: 2, timeout: 2 * time.Second}
	for args, change := range map[string]func(*options){
		"":                  func(*options) {},
		"-s a -b b -p 1":    func(o *options) { o.names.Dest, o.names.Source, o.names.Service = "a", "b", "1" },
		"-c 10000 -r0 -t 1": func(o *options) { o.conns, o.retries, o.timeout = 10000, 0, time.Millisecond },
	} {
		want := def
		change(&want)
		if got, err := parse(strings.Fields(args)); err != nil || *got != want {
			t.Errorf("parse(%s) = %+v, %v, want %+v", args, got, err, want)
		}
	}
	for args, want := range map[string]string{
		"-x":      "invalid option -- 'x'",
		"-c 0":    "-c 0: want a number from 1 to 1048576",
		"-r 8":    "-r 8: want a number from 0 to 7",
		"-t soon": "-t soon: want a number from 0 to 1073741824",
		"host":    `unexpected argument "host": use -s for a server`,
	} {
		if _, err := parse(strings.Fields(args)); err == nil || err.Error() != want {
			t.Errorf("parse(%s) = %v, want %s", args, err, want)
		}
	}
}

// TestUsage checks that the old version's usage is printed to standard output as in C, and the
// new version's usage to standard error.
func TestUsage(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if status := run(context.Background(), []string{"-h"}, &stdout, &stderr); status != statusUsage {
		t.Errorf("run(-h) = %d, want %d", status, statusUsage)
	}
	if !strings.HasSuffix(stdout.String(), "\n"+usage) || !strings.HasSuffix(stderr.String(), ":\n"+meshUsage) {
		t.Errorf("run(-h) printed %q and %q, want both usages", &stdout, &stderr)
	}
	for _, spec := range []struct{ flags, usage string }{{flagSpec, usage}, {meshSpec, meshUsage}} {
		for _, name := range strings.ReplaceAll(spec.flags, ":", "") {
			if !strings.Contains(spec.usage, "-"+string(name)) {
				t.Errorf("-%c is not in the usage", name)
			}
		}
	}
}

// TestTable compares with the C program's table, including the rows without measurements.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	conns := []*conn{{}, {}, {failed: true}}
	conns[0].times[stepConnect] = span{1, 1001}
	conns[1].times[stepConnect] = span{501, 3001}
	conns[2].times[stepConnect] = span{501, 0}
	totals := [numSteps]span{stepConnect: {1, 3101}, stepDestroy: {5, 0}}
	printTable(&tool.UI{Out: &out}, &totals, conns, false)
	want := `step              total ms     max ms     min us  us / conn
create id    :        0.00       0.001000000000.00       0.00
resolve addr :        0.00       0.001000000000.00       0.00
resolve route:        0.00       0.001000000000.00       0.00
create qp    :        0.00       0.001000000000.00       0.00
connect      :        3.10       2.50    1000.00    1033.33
disconnect   :        0.00       0.001000000000.00       0.00
destroy      :        0.00       0.001000000000.00       0.00
`
	if out.String() != want {
		t.Errorf("printTable printed\n%s\nwant\n%s", &out, want)
	}
	out.Reset()
	printTable(&tool.UI{Out: &out}, &totals, nil, true)
	if !strings.Contains(out.String(), "\nbind addr    :        0.00") {
		t.Errorf("printTable printed\n%s\nwant a row for bind addr", &out)
	}
}
