// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// header returns perftest's header with its columns.
func header(k kind) string {
	if k.Latency {
		return " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\n"
	}
	return " #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]\n"
}

// line returns the line of a size. For latencies the line of percentiles follows.
func (r *result) line() string {
	l := r.Latency
	if l == nil {
		return fmt.Sprintf(" %-10d %-14d %-19.2f %-21.2f %.6f\n", r.Size, r.Messages, r.Peak, r.Average, r.Rate)
	}
	return fmt.Sprintf(" %-6d %-14d %-14.2f %-12.2f %-18.2f %-14.2f %-15.2f %-22.2f %.2f\n", r.Size, r.Messages, l.Min, l.Max, l.P50, l.Mean, l.Stdev, l.P99, l.P999) +
		fmt.Sprintf(" percentiles[usec]: p50 %.2f  p90 %.2f  p99 %.2f  p99.9 %.2f\n", l.P50, l.P90, l.P99, l.P999)
}
