// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strings"
	"testing"
)

func TestParsePerftest(t *testing.T) {
	const bw = ` #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
Conflicting CPU frequency values detected: 2600.000000 != 0.000000. CPU Frequency is not max.
 8          1000             0.00               0.12   		   0.016000
 65536      400              30.00              31.25   		   0.000500
---------------------------------------------------------------------------------------
`
	const lat = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 8       1000          64.10          999.00       72.50     	       73.10        	1.50		90.25   		999.00
`
	for _, c := range []struct {
		out  string
		cell cell
		want figures
	}{
		{bw, cell{test: "send_bw", size: 8, qps: 1}, figures{message: 62.5}},
		{bw, cell{test: "send_bw", size: 65536, qps: 1}, figures{message: 2000}},
		{lat, cell{test: "send_lat", size: 8, qps: 1}, figures{message: 72.5, p99: 90.25}},
	} {
		got, err := parsePerftest(c.out, c.cell)
		if err != nil || math.Abs(got.message-c.want.message) > 1e-9 || got.p99 != c.want.p99 {
			t.Errorf("parsePerftest(%v) = %+v, %v, want %+v", c.cell, got, err, c.want)
		}
	}
	for _, bad := range []string{"", strings.Replace(bw, "0.016000", "0.0x", 1), strings.Replace(bw, "0.016000", "0.000000", 1), "8 1 2"} {
		if f, err := parsePerftest(bad, cell{test: "send_bw", size: 8, qps: 1}); err == nil {
			t.Errorf("parsePerftest(%q) = %+v, want an error", bad, f)
		}
	}
}

func TestParseRdmaperf(t *testing.T) {
	got, err := parseRdmaperf([]byte(`{"plan":{},"results":[{"messages":500,"seconds":2,"latency_us":{"p50":3,"p99":4}}]}`), cell{test: "send_lat"})
	if err != nil || got != (figures{message: 3, p99: 4}) {
		t.Errorf("parseRdmaperf(latency) = %+v, %v, want {3 4}", got, err)
	}
	got, err = parseRdmaperf([]byte(`{"results":[{"messages":500,"seconds":2}]}`), cell{test: "send_bw"})
	if err != nil || got != (figures{message: 4000}) {
		t.Errorf("parseRdmaperf(bandwidth) = %+v, %v, want {4000 0}", got, err)
	}
	for _, bad := range []string{"", "{}", `{"results":[{}]}`} {
		if f, err := parseRdmaperf([]byte(bad), cell{test: "send_bw"}); err == nil {
			t.Errorf("parseRdmaperf(%q) = %+v, want an error", bad, f)
		}
	}
}

// TestPerftestInline compares perftestInline with perftest's ctx_set_max_inline.
func TestPerftestInline(t *testing.T) {
	for _, c := range []struct {
		test, driver string
		want         int
	}{
		{"send_lat", "rxe", 236}, {"write_lat", "rxe", 220}, {"read_lat", "rxe", 0}, {"send_lat", "mlx5", 236}, {"send_lat", "siw", 0}, {"write_lat", "siw", 0},
	} {
		if got := perftestInline(cell{test: c.test}, c.driver); got != c.want {
			t.Errorf("perftestInline(%s, %s) = %d, want %d", c.test, c.driver, got, c.want)
		}
	}
}

// TestCells checks that the matrix has the required cells once, and contains the selected cells.
func TestCells(t *testing.T) {
	names := map[string]bool{}
	for _, c := range cells(true) {
		if names[c.String()] {
			t.Errorf("cells(true) has %v twice", c)
		}
		names[c.String()] = true
		if n := c.count(); n < 5 || c.depth() > n || c.depth() > 128 {
			t.Errorf("%v has count = %d and depth = %d, want at least 5, and at most 128 and the count", c, n, c.depth())
		}
	}
	for _, c := range cells(false) {
		if !names[c.String()] {
			t.Errorf("cells(true) does not contain the selected cell %v", c)
		}
	}
	for _, want := range []string{"send_bw/1048576/64qp/polled", "read_bw/65536/8qp/events", "atomic_bw/8/64qp/polled", "read_lat/8/1qp/events", "send_bw/8/8qp/list16/polled"} {
		if !names[want] {
			t.Errorf("cells(true) does not contain %s", want)
		}
	}
	for _, none := range []string{"write_lat/8/1qp/events", "write_bw/8/1qp/events"} {
		if names[none] {
			t.Errorf("cells(true) contains %s, which perftest does not support", none)
		}
	}
}
