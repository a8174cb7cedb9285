// SPDX-License-Identifier: Apache-2.0

package streamtest

import (
	"errors"
	"testing"
	"time"
)

// TestRow checks the format of rows. show_perf of rdma-core's rstream.c prints the same format.
func TestRow(t *testing.T) {
	for _, tc := range []struct {
		test Test
		took time.Duration
		want string
	}{
		{Latency(64), 1500 * time.Millisecond, "64_lat    64      1       100k    12m         1.50s      0.07       7.50\n"},
		{Bandwidth(1 << 20), 250 * time.Millisecond, "1m_bw     1m      100     1       200m        0.25s      6.71    1250.00\n"},
		{Latency(1536), time.Second, "1.5k_lat  1.5k    1       10k     29m         1.00s      0.25      50.00\n"},
		{Test{Name: "custom", Size: 1000, Count: 1000, Iterations: 1}, 10 * time.Millisecond, "custom    1000    1k      1       1.9m        0.01s      1.60       5.00\n"},
	} {
		if got := tc.test.Row(tc.took); got != tc.want {
			t.Errorf("Row(%v) =\n%swant\n%s", tc.took, got, tc.want)
		}
	}
}

func TestSizes(t *testing.T) {
	if got := Sizes(true); len(got) != 33 || got[32] != 6<<20 {
		t.Errorf("Sizes(true) has %d sizes up to %d, want 33 up to %d", len(got), got[len(got)-1], 6<<20)
	}
}

func TestPattern(t *testing.T) {
	var p Pattern
	b := make([]byte, 300)
	for range 3 {
		p.Fill(b)
		if err := p.Verify(b); err != nil {
			t.Errorf("Verify: %v", err)
		}
	}
	p.Fill(b)
	b[7]++
	if err := p.Verify(b); !errors.Is(err, VerifyError(907)) {
		t.Errorf("Verify() of a wrong byte = %v, want %v", err, VerifyError(907))
	}
}
