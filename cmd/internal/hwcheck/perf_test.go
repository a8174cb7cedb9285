// SPDX-License-Identifier: Apache-2.0

package hwcheck

import "testing"

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
