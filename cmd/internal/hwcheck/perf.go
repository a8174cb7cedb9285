// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"purerdma/internal/hwreport"
)

// perfChecks measure. They do not judge the figures, which depend on the machine.
var perfChecks = []Check{
	{ID: "costs", Local: true, Title: "times of posts, polls, registrations and connections", do: checkCosts},
	{ID: "perftest", Local: true, Title: "rdmaperf and perftest in alternation, on this host", Limit: 5 * time.Minute, needs: needsPerftest, do: checkPerftest},
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
	flags []string // of both programs
}

// String returns the test as on a command line.
func (c *cell) String() string {
	return strings.Join(append([]string{c.test, "-s", strconv.Itoa(c.size)}, c.flags...), " ")
}

var cells = []cell{
	{"write_lat", 8, 1000, nil}, {"write_lat", 4096, 1000, nil}, {"send_lat", 8, 1000, nil}, {"read_lat", 8, 1000, nil},
	{"write_bw", 65536, 1000, nil}, {"send_bw", 65536, 1000, nil}, {"send_bw", 64, 5000, nil}, {"read_bw", 65536, 1000, nil},
	{"atomic_lat", 8, 1000, nil}, {"send_lat", 8, 1000, []string{"-e"}}, {"write_bw", 64, 2000, []string{"-q", "16"}},
	{"write_bw", 65536, 1000, []string{"-q", "16"}}, {"write_bw", 64, 5000, []string{"-Q", "1"}}, {"write_bw", 64, 500, []string{"-q", "128"}},
}

func (c *cell) latency() bool { return strings.HasSuffix(c.test, "_lat") }

// unit returns the unit of the cell's figure.
func (c *cell) unit() string {
	if c.latency() {
		return "us (median)"
	}
	return "MiB/s"
}

func needsPerftest(t *trial) string {
	if _, err := exec.LookPath("ib_write_lat"); err != nil {
		return "perftest is not installed"
	}
	if _, err := ours("rdmaperf"); err != nil {
		return "there is no rdmaperf next to this program"
	}
	if !t.target.Addr.IsValid() {
		return "no address of the port's network interface is known (-a)"
	}
	return ""
}

func checkPerftest(t *trial) {
	own, err := ours("rdmaperf")
	t.must("find rdmaperf", err)
	began, measured := time.Now(), 0
	for _, c := range cells {
		if time.Since(began) > perfTotal {
			t.note("no time for %s", &c)
			continue
		}
		if err := t.alternate(&c, own); err != nil {
			t.note("%s: %v", &c, err) // perftest itself fails sometimes
			continue
		}
		measured++
	}
	if measured == 0 {
		t.end(hwreport.Unknown, "no measurement succeeded")
	}
}

// alternate runs both programs in turn, so that drift affects both equally.
func (t *trial) alternate(c *cell, program string) error {
	programs := [2][]string{{"ib_" + c.test, "-F"}, {program, c.test}}
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
	t.note("%s, %s: perftest %.2f, rdmaperf %.2f, ratio %.3f", c, c.unit(), theirs, own, own/theirs)
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
	test := append([]string{"-s", strconv.Itoa(c.size), "-n", strconv.Itoa(c.count)}, c.flags...)
	server := append(slices.Clone(program[1:]), common...)
	if program[0] == "ib_"+c.test {
		server = append(server, test...)
	} else {
		server = server[1:]
	}
	client := append(append(append(slices.Clone(program[1:]), common...), test...), t.target.Addr.String())
	out, err := runPair(ctx, append([]string{program[0]}, server...), append([]string{program[0]}, client...))
	if err != nil {
		return 0, err
	}
	return c.parse(string(out))
}

// perfFlags returns the flags of the device, which both programs share, with a free TCP port.
func (t *trial) perfFlags() ([]string, error) {
	port, err := t.freePort()
	if err != nil {
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
