// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"slices"
	"testing"
)

// TestParseRow parses rows of perftest.
func TestParseRow(t *testing.T) {
	const latency = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\n 8       1000          1.50           9.10         1.75     \t       1.80   \t\t0.20\t\t2.50\t\t9.10\n"
	const bandwidth = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n 65536      5000             11000.50            10987.25\t\t   0.17\n"
	for _, tc := range []struct {
		c    cell
		out  string
		want figures
	}{
		{cell{test: "write_lat", size: 8}, latency, figures{1.75, 2.5}},
		{cell{test: "write_bw", size: 65536}, bandwidth, figures{10987.25, 10987.25}},
		{cell{test: "write_lat", size: 16}, latency, figures{}},
		{cell{test: "write_bw", size: 8}, " 8 1 2 none 4\n", figures{}},
		{cell{test: "write_bw", size: 8}, "", figures{}},
	} {
		got, err := tc.c.parse(tc.out)
		if got != tc.want || (err == nil) != (tc.want.middle > 0) {
			t.Errorf("parse(%q) = %v, %v, want %v", tc.out, got, err, tc.want)
		}
	}
}

// TestCQESize checks the command lines of both programs with a size of completions.
func TestCQESize(t *testing.T) {
	for _, tc := range []struct {
		cqe         int
		program     string
		serve, runs []string
	}{
		{0, "/rdmaperf", []string{"/rdmaperf", "-d", "x"}, []string{"/rdmaperf", "write_bw", "-d", "x"}},
		{128, "/rdmaperf", []string{"/rdmaperf", "-d", "x"}, []string{"/rdmaperf", "write_bw", "--cqe-size", "128", "-d", "x"}},
		{64, "ib_write_bw", []string{"env", "MLX5_CQE_SIZE=64", "ib_write_bw", "-d", "x"}, []string{"env", "MLX5_CQE_SIZE=64", "ib_write_bw", "write_bw", "-d", "x"}},
	} {
		c := cell{test: "write_bw", cqe: tc.cqe}
		serve, runs := c.withCQE(tc.program, []string{"-d", "x"}, []string{"write_bw", "-d", "x"})
		if !slices.Equal(serve, tc.serve) || !slices.Equal(runs, tc.runs) {
			t.Errorf("withCQE(%s) of %d bytes = %q, %q, want %q, %q", tc.program, tc.cqe, serve, runs, tc.serve, tc.runs)
		}
	}
	if got, want := (&cell{test: "write_bw", size: 64, cqe: 128}).String(), "write_bw -s 64 with completions of 128 bytes"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}
