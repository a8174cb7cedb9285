// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"purerdma/internal/hwreport"
)

// perfChecks measure. They judge nothing, because a ratio depends on the machine.
var perfChecks = []Check{
	{ID: "perftest", Title: "rdmaperf and perftest in alternation, on this host", Limit: 5 * time.Minute, needs: needsPerftest, do: checkPerftest},
}

// perfTime bounds one run of a program.
const perfTime = 20 * time.Second

// perfTotal is the time after which no further comparison begins.
const perfTotal = 2 * time.Minute

// perfRuns is the number of runs of each program for each cell.
const perfRuns = 3

// cell is one comparison.
type cell struct {
	test  string // of perftest, without "ib_"
	size  int
	count int
}

var cells = []cell{
	{"write_lat", 8, 1000}, {"write_lat", 4096, 1000}, {"send_lat", 8, 1000}, {"read_lat", 8, 1000},
	{"write_bw", 65536, 1000}, {"send_bw", 65536, 1000}, {"send_bw", 64, 5000}, {"read_bw", 65536, 1000},
}

func (c *cell) latency() bool { return strings.HasSuffix(c.test, "_lat") }

// unit returns the unit of the cell's figure.
func (c *cell) unit() string {
	if c.latency() {
		return "us (median)"
	}
	return "MiB/s"
}

// rdmaperf returns the path of the program, which is next to this one or in PATH.
func rdmaperf() (string, error) {
	if self, err := os.Executable(); err == nil {
		if p, err := exec.LookPath(filepath.Join(filepath.Dir(self), "rdmaperf")); err == nil {
			return p, nil
		}
	}
	return exec.LookPath("rdmaperf")
}

func needsPerftest(t *trial) string {
	if _, err := exec.LookPath("ib_write_lat"); err != nil {
		return "perftest is not installed"
	}
	if _, err := rdmaperf(); err != nil {
		return "there is no rdmaperf next to this program or in PATH"
	}
	if !t.target.Addr.IsValid() {
		return "no address of the port's network interface is known (-a)"
	}
	return ""
}

func checkPerftest(t *trial) {
	ours, err := rdmaperf()
	t.must("find rdmaperf", err)
	began, measured := time.Now(), 0
	for _, c := range cells {
		if time.Since(began) > perfTotal {
			t.note("no time for %s of %d bytes", c.test, c.size)
			continue
		}
		if err := t.alternate(&c, ours); err != nil {
			t.note("%s %d bytes: %v", c.test, c.size, err) // perftest itself fails sometimes
			continue
		}
		measured++
	}
	if measured == 0 {
		t.end(hwreport.Unknown, "no measurement succeeded")
	}
}

// alternate runs both programs in turn, so that drift affects both equally.
func (t *trial) alternate(c *cell, ours string) error {
	programs := [2][]string{{"ib_" + c.test, "-F"}, {ours, c.test}}
	var figures [2][]float64
	for i := range perfRuns {
		for k := range programs {
			which := (i + k) % 2
			f, err := t.perf(c, programs[which])
			if err != nil {
				return err
			}
			figures[which] = append(figures[which], f)
		}
	}
	theirs, own := median(figures[0]), median(figures[1])
	t.note("%s %d bytes, %s: perftest %.2f, rdmaperf %.2f, ratio %.3f", c.test, c.size, c.unit(), theirs, own, own/theirs)
	return nil
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// perf runs the server and the client of one program, and returns the figure of the client. The server of rdmaperf
// takes no test.
func (t *trial) perf(c *cell, program []string) (float64, error) {
	ctx, cancel := context.WithTimeout(t.ctx, perfTime)
	defer cancel()
	common, err := t.perfFlags()
	if err != nil {
		return 0, err
	}
	test := []string{"-s", strconv.Itoa(c.size), "-n", strconv.Itoa(c.count)}
	server := append(slices.Clone(program[1:]), common...)
	if program[0] == "ib_"+c.test {
		server = append(server, test...)
	} else {
		server = server[1:]
	}
	client := append(append(append(slices.Clone(program[1:]), common...), test...), t.target.Addr.String())
	serving := exec.CommandContext(ctx, program[0], server...)
	if err := serving.Start(); err != nil {
		return 0, err
	}
	gone := make(chan struct{})
	go func() {
		serving.Wait()
		close(gone)
	}()
	defer func() {
		serving.Process.Kill()
		<-gone
	}()
	for {
		select { // the server of perftest does not show when it is ready
		case <-time.After(300 * time.Millisecond):
		case <-gone:
			return 0, fmt.Errorf("the server of %s has ended", program[0])
		}
		out, err := exec.CommandContext(ctx, program[0], client...).CombinedOutput()
		if err == nil {
			return c.parse(string(out))
		}
		if ctx.Err() != nil {
			out = bytes.TrimSpace(out)
			return 0, fmt.Errorf("%s: %w: %s", program[0], err, out[max(0, len(out)-200):])
		}
	}
}

// perfFlags returns the flags of the device, which both programs share, with a free TCP port.
func (t *trial) perfFlags() ([]string, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort(t.target.Addr.String(), "0"))
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err := errors.Join(err, ln.Close()); err != nil {
		return nil, err
	}
	flags := []string{"-d", t.target.Device, "-i", strconv.Itoa(int(t.target.Port)), "-p", port}
	if iwarp(t.dev) {
		return append(flags, "-R"), nil
	}
	gid, err := t.target.gid(t.dev)
	if err != nil {
		return nil, err
	}
	return append(flags, "-x", strconv.Itoa(int(gid.Index))), nil
}

// parse returns the figure of the row that begins with the size. Both programs print the rows of perftest. A latency
// row has iterations, minimum, maximum and median behind the size, a bandwidth row iterations, peak and average.
func (c *cell) parse(out string) (float64, error) {
	column := 3
	if c.latency() {
		column = 4
	}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) <= column || f[0] != strconv.Itoa(c.size) {
			continue
		}
		if v, err := strconv.ParseFloat(f[column], 64); err == nil && v > 0 {
			return v, nil
		}
		return 0, fmt.Errorf("unexpected row %q", strings.TrimSpace(line))
	}
	return 0, fmt.Errorf("no row for %d bytes", c.size)
}
