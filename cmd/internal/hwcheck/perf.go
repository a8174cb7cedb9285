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
	{
		ID: "costs-plain", Local: true, Title: "the same times without BlueFlame (MLX5_SHUT_UP_BF=1)", needs: needsConnectX, do: checkCosts,
		Env: map[string]string{"MLX5_SHUT_UP_BF": "1"},
	},
	{
		ID: "costs-no-scatter", Local: true, Title: "the same times without data in completions (MLX5_SCATTER_TO_CQE=0)", needs: needsConnectX, do: checkCosts,
		Env: map[string]string{"MLX5_SCATTER_TO_CQE": "0"},
	},
	{ID: "perftest", Local: true, Title: "rdmaperf and perftest in alternation, on this host", Limit: 5 * time.Minute, needs: needsPerftest, do: checkPerftest},
}

// perfTime bounds one run of a program.
const perfTime = 20 * time.Second

// perfStart is the time after which a server listens.
const perfStart = 300 * time.Millisecond

// perfTotal is the time after which no further comparison begins.
const perfTotal = 3 * time.Minute

// perfRuns is the number of runs of each program for each cell.
const perfRuns = 3

// cell is one comparison.
type cell struct {
	test  string // of perftest, without "ib_"
	size  int
	count int
	flags []string // of both programs
	cqe   int      // bytes of a completion of a ConnectX, 0 for the default
}

// String returns the test as on a command line.
func (c *cell) String() string {
	words := append([]string{c.test, "-s", strconv.Itoa(c.size)}, c.flags...)
	if c.cqe > 0 {
		words = append(words, fmt.Sprintf("with completions of %d bytes", c.cqe))
	}
	return strings.Join(words, " ")
}

var cells = []cell{
	{"write_lat", 8, 1000, nil, 0}, {"write_lat", 4096, 1000, nil, 0}, {"send_lat", 8, 1000, nil, 0}, {"read_lat", 8, 1000, nil, 0},
	{"write_bw", 65536, 1000, nil, 0}, {"send_bw", 65536, 1000, nil, 0}, {"send_bw", 64, 5000, nil, 0}, {"read_bw", 65536, 1000, nil, 0},
	{"atomic_lat", 8, 1000, nil, 0}, {"send_lat", 8, 1000, []string{"-e"}, 0}, {"write_bw", 64, 2000, []string{"-q", "16"}, 0},
	{"write_bw", 65536, 1000, []string{"-q", "16"}, 0}, {"write_bw", 64, 5000, []string{"-Q", "1"}, 0}, {"write_bw", 64, 500, []string{"-q", "128"}, 0},
	{"write_bw", 64, 5000, []string{"-l", "16"}, 0}, {"write_bw", 65536, 1000, []string{"--disable_pcie_relaxed"}, 0}, {"write_lat", 2, 1000, nil, 0},
	{"send_lat", 4096, 1000, nil, 0}, {"write_bw", 1 << 20, 200, nil, 0}, {"send_bw", 2, 5000, nil, 0}, {"read_bw", 64, 2000, nil, 0},
	{"atomic_bw", 8, 1000, nil, 0}, {"write_bw", 64, 5000, []string{"-I", "64"}, 0}, {"write_bw", 4096, 2000, []string{"-t", "16"}, 0},
	{"write_bw", 64, 5000, nil, 64}, {"write_bw", 64, 5000, nil, 128}, {"send_lat", 8, 1000, nil, 64}, {"send_lat", 8, 1000, nil, 128},
}

func (c *cell) latency() bool { return strings.HasSuffix(c.test, "_lat") }

// figures are the results of a run. Latencies have the median and the 99th percentile in microseconds. A bandwidth in MiB/s is both figures.
type figures struct{ middle, tail float64 }

// compare describes the figures of both programs.
func (c *cell) compare(theirs, own figures) string {
	if c.latency() {
		return fmt.Sprintf("%s, us: perftest %.2f, rdmaperf %.2f, ratio %.3f; 99%%: %.2f and %.2f, ratio %.3f",
			c, theirs.middle, own.middle, own.middle/theirs.middle, theirs.tail, own.tail, own.tail/theirs.tail)
	}
	return fmt.Sprintf("%s, MiB/s: perftest %.2f, rdmaperf %.2f, ratio %.3f", c, theirs.middle, own.middle, own.middle/theirs.middle)
}

func needsPerftest(t *trial) string {
	if _, err := exec.LookPath("ib_write_lat"); err != nil {
		return "perftest is not installed"
	}
	if _, err := t.target.ours("rdmaperf"); err != nil {
		return "there is no rdmaperf next to this program"
	}
	if !t.target.Addr.IsValid() {
		return "no address of the port's network interface is known (-a)"
	}
	return ""
}

func checkPerftest(t *trial) {
	t.nearDevice()
	own, err := t.target.ours("rdmaperf")
	t.must("find rdmaperf", err)
	began, measured := time.Now(), 0
	for _, c := range cells {
		if time.Since(began) > perfTotal {
			t.note("no time for %s", &c)
			continue
		}
		if c.cqe > 0 && needsConnectX(t) != "" {
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
	var runs [2][]figures
	for i := range perfRuns {
		for k := range programs {
			which := (i + k) % 2
			f, err := t.perf(c, programs[which])
			if err != nil {
				return err
			}
			runs[which] = append(runs[which], f)
		}
	}
	t.note("%s", c.compare(medians(runs[0]), medians(runs[1])))
	return nil
}

// medians returns the median of each figure.
func medians(runs []figures) figures {
	median := func(figure func(figures) float64) float64 {
		var list []float64
		for _, f := range runs {
			list = append(list, figure(f))
		}
		slices.Sort(list)
		return list[len(list)/2]
	}
	return figures{median(func(f figures) float64 { return f.middle }), median(func(f figures) float64 { return f.tail })}
}

// perf runs the server and the client of one program, and returns the figures of the client. The server of rdmaperf
// takes no test.
func (t *trial) perf(c *cell, program []string) (figures, error) {
	ctx, cancel := context.WithTimeout(t.ctx, perfTime)
	defer cancel()
	common, err := t.perfFlags()
	if err != nil {
		return figures{}, err
	}
	test := append([]string{"-s", strconv.Itoa(c.size), "-n", strconv.Itoa(c.count)}, c.flags...)
	server := append(slices.Clone(program[1:]), common...)
	if program[0] == "ib_"+c.test {
		server = append(server, test...)
	} else {
		server = server[1:]
	}
	client := append(append(append(slices.Clone(program[1:]), common...), test...), t.target.Addr.String())
	server, client = c.withCQE(program[0], server, client)
	out, err := runPair(ctx, perfStart, server, client)
	if err != nil {
		return figures{}, err
	}
	return c.parse(string(out))
}

// withCQE returns the command lines of a program with the size of completions, from the flags of both sides. For libmlx5 it is in the
// environment. The server of rdmaperf gets it from the client.
func (c *cell) withCQE(program string, server, client []string) (serve, run []string) {
	serve, run = append([]string{program}, server...), append([]string{program}, client...)
	switch {
	case c.cqe == 0:
	case program == "ib_"+c.test:
		env := []string{"env", fmt.Sprintf("MLX5_CQE_SIZE=%d", c.cqe)}
		serve, run = append(slices.Clone(env), serve...), append(slices.Clone(env), run...)
	default:
		run = slices.Insert(run, 2, "--cqe-size", strconv.Itoa(c.cqe)) // behind the test
	}
	return serve, run
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

// parse returns the figures of the row that begins with the size. Both programs print the rows of perftest. A latency row has iterations,
// minimum, maximum, median, average, deviation and 99th percentile behind the size, a bandwidth row iterations, peak and average.
func (c *cell) parse(out string) (figures, error) {
	column, tail := 3, 3
	if c.latency() {
		column, tail = 4, 7
	}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) <= tail || f[0] != strconv.Itoa(c.size) {
			continue
		}
		middle, err1 := strconv.ParseFloat(f[column], 64)
		last, err2 := strconv.ParseFloat(f[tail], 64)
		if err1 == nil && err2 == nil && middle > 0 && last > 0 {
			return figures{middle, last}, nil
		}
		return figures{}, fmt.Errorf("unexpected row %q", strings.TrimSpace(line))
	}
	return figures{}, fmt.Errorf("no row for %d bytes", c.size)
}
