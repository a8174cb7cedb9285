// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/test/connectx/inprocess"
)

// TestOperator runs the two ends of operations on a model of ConnectX.
func TestOperator(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	k := cmtest.New(inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1"))
	for _, kind := range operationKinds {
		t.Run(kind, func(t *testing.T) {
			o := operator{host: k.Host(), kind: kind, size: 64, goroutines: 100}
			r, w := io.Pipe()
			served := make(chan error, 1)
			go func() { served <- o.serve(ctx, "10.0.0.1:0", w) }()
			addr, err := bufio.NewReader(r).ReadString('\n')
			if err != nil {
				t.Fatalf("the server's address: %v", err)
			}
			// More messages than receives, so that the server has to post receives again.
			took, err := o.measure(ctx, "10.0.0.2:0", addr[:len(addr)-1], 2*operateReceives)
			if err != nil || took <= 0 {
				t.Errorf("measure() = %v, %v, want a time", took, err)
			}
			if err := <-served; err != nil {
				t.Errorf("serve() = %v, want nil", err)
			}
		})
	}
	if left := k.Left(); len(left) > 0 {
		t.Errorf("the ends have left %v", left)
	}
}

// TestOperations checks that every combination has a comparison, whose test fits rdmaperf and perftest.
func TestOperations(t *testing.T) {
	names := map[string]bool{}
	for _, group := range operations() {
		for _, o := range group {
			if names[o.String()] {
				t.Errorf("operations() has %v twice", o)
			}
			names[o.String()] = true
			c := o.cell()
			if c.count() < c.depth() || c.depth() != o.goroutines || c.moderation() != 1 || c.latency() {
				t.Errorf("cell of %v = %+v, want a depth of %d, a completion for each request and as many messages at least", o, c, o.goroutines)
			}
			if o.goroutines > operateReceives {
				t.Errorf("%v has more messages in flight than the server has receives", o)
			}
		}
	}
	if want := 2 * len(operationKinds) * len(operationSizes) * len(operationGoroutines); len(names) != want {
		t.Errorf("operations() has %d comparisons, want %d", len(names), want)
	}
	for _, want := range []string{"read/8/1", "write/65536/100", "send/4096/16/delayed"} {
		if !names[want] {
			t.Errorf("operations() does not contain %s", want)
		}
	}
}

func TestParseOperate(t *testing.T) {
	if got, err := parseOperate("12.5\n"); err != nil || got.message != 12.5 {
		t.Errorf("parseOperate(12.5) = %v, %v, want 12.5", got.message, err)
	}
	for _, bad := range []string{"", "0\n", "-1\n", "NaN\n", "1 2\n"} {
		if got, err := parseOperate(bad); err == nil {
			t.Errorf("parseOperate(%q) = %v, want an error", bad, got.message)
		}
	}
}

// TestOperationGoals checks which rows are outside the goal, with made-up times of the programs.
func TestOperationGoals(t *testing.T) {
	was := operationWays
	defer func() { operationWays = was }()
	group := []operation{{"read", 64, 1, false}, {"read", 64, 16, false}, {"read", 64, 100, false}}
	for _, c := range []struct {
		conn map[int]float64 // time with each number of goroutines. rdmaperf's is 100, 10 and 1
		want []string
	}{
		{map[int]float64{1: 109, 16: 50, 100: 1.1}, nil},
		{map[int]float64{1: 111, 16: 10, 100: 1.2}, []string{"read/64/1", "read/64/100"}},
	} {
		theirs := func(_ context.Context, _ *env, x cell) (figures, error) {
			return figures{message: map[int]float64{1: 100, 16: 10, 100: 1}[x.outstanding]}, nil
		}
		broken := func(context.Context, *env, cell) (figures, error) { return figures{}, io.ErrUnexpectedEOF }
		operationWays = [...]measurement{
			byConn: func(_ context.Context, _ *env, x cell) (figures, error) {
				return figures{message: c.conn[x.outstanding]}, nil
			},
			byRdmaperf: theirs,
			byPerftest: broken, // perftest fails sometimes, and the other rows remain
		}
		got, err := (&env{runs: 3}).operationGroup(t.Context(), group)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("operationGroup with %v = %q, %v, want %q", c.conn, got, err, c.want)
		}
	}
}

// TestOperationGain checks the comparison of 100 goroutines with one.
func TestOperationGain(t *testing.T) {
	was := operationWays
	defer func() { operationWays = was }()
	group := []operation{{"read", 64, 1, true}, {"read", 64, 100, true}}
	for ours, want := range map[float64]int{6: 0, 7: 1} {
		times := func(_ context.Context, _ *env, x cell) (figures, error) {
			return figures{message: map[int]float64{1: 100, 100: ours}[x.outstanding]}, nil
		}
		operationWays = [...]measurement{times, times, times}
		all, err := (&env{runs: 3}).operationTimes(t.Context(), group)
		if err != nil {
			t.Fatalf("operationTimes() = %v", err)
		}
		if got := reportOperations(group, all); len(got) != want {
			t.Errorf("reportOperations with 100 and %v us = %q, want %d rows outside the goal", ours, got, want)
		}
	}
}
