// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/test/connectx/inprocess"
)

// TestExchange runs both ends of each exchange on a model of ConnectX and on TCP.
func TestExchange(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	k := cmtest.New(inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1"))
	for _, network := range []struct{ name, server, client string }{
		{"stream", "10.0.0.1:0", "10.0.0.2:0"}, {"tcp", "127.0.0.1:0", "127.0.0.1:0"},
	} {
		for _, x := range []exchange{
			{kind: "echo", size: 64, count: 1, rounds: 200},
			{kind: "echo", size: 100_000, count: 20, rounds: 2},
			{kind: "http", size: 64, count: 4, rounds: 10},
			{kind: "http", size: 200_000, count: 1, rounds: 5},
		} {
			x.network, x.host = network.name, k.Host()
			t.Run(strings.Join(x.args("", ""), " "), func(t *testing.T) {
				ln, err := x.listen(ctx, network.server)
				if err != nil {
					t.Fatalf("listen() = %v", err)
				}
				served := make(chan error, 1)
				go func() { served <- exchangeKinds[x.kind].serve(&x, ln) }()
				times, err := exchangeKinds[x.kind].run(&x, ctx, network.client, ln.Addr().String())
				if f, ferr := times.figures(); err != nil || ferr != nil || f.mean <= 0 {
					t.Errorf("times = %+v, %v, %v, want times above 0", times, err, ferr)
				}
				ln.Close()
				if err := <-served; err != nil && x.kind == "echo" {
					t.Errorf("the server: %v", err)
				}
			})
		}
	}
	// An end of an HTTP connection may still be closing.
	for end := time.Now().Add(30 * time.Second); len(k.Left()) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if left := k.Left(); len(left) > 0 {
		t.Errorf("the ends have left %v", left)
	}
}

func TestExchangeUsage(t *testing.T) {
	for _, bad := range [][]string{
		{"server"}, {"server", "127.0.0.1", "tcp", "echo", "1", "1", "0"}, {"server", "127.0.0.1", "tcp", "none", "1", "1", "1"},
		{"server", "127.0.0.1", "udp", "echo", "1", "1", "1"}, {"client", "127.0.0.1", "tcp", "echo", "1", "1", "1"}, {"none", "127.0.0.1", "tcp", "echo", "1", "1", "1"},
	} {
		if err := exchangeHere(t.Context(), bad[0], bad[1:], io.Discard); err == nil {
			t.Errorf("exchangeHere(%q) = nil, want an error", bad)
		}
	}
}

// TestSummary checks the times of a message.
func TestSummary(t *testing.T) {
	us := time.Microsecond
	if got, want := summary([]time.Duration{20 * us, 30 * us, 100 * us}, 300*us, 6, 2), (timesOf{Mean: 50, P50: 15}); got != want {
		t.Errorf("summary() = %+v, want %+v", got, want)
	}
}

func TestParseRstream(t *testing.T) {
	const out = `name      bytes   xfers   iters   total       time     Gb/sec    usec/xfer
custom    64      1       2k      250k        0.35s      0.01      87.32
`
	if got, err := parseRstream(out); err != nil || got.message != 87.32 || got.mean != 87.32 {
		t.Errorf("parseRstream() = %+v, %v, want 87.32", got, err)
	}
	for _, bad := range []string{"", "rconnect: Connection refused\n", strings.Replace(out, "87.32", "nan", 1), strings.Replace(out, "87.32", "0.00", 1)} {
		if got, err := parseRstream(bad); err == nil {
			t.Errorf("parseRstream(%q) = %+v, want an error", bad, got)
		}
	}
}

func TestParseCalls(t *testing.T) {
	got, err := parseCalls([]byte(`{"calls":50,"seconds":0.5,"qps":100,"latency_us":{"p50":9000,"p90":1,"p99":1}}`))
	if err != nil || math.Abs(got.mean-10000) > 1e-6 || got.message != 9000 {
		t.Errorf("parseCalls() = %+v, %v, want a mean of 10000 and a median of 9000", got, err)
	}
	for _, bad := range []string{"", "{}", `{"calls":50,"seconds":0.5}`, `{"calls":0,"seconds":1,"latency_us":{"p50":1}}`} {
		if got, err := parseCalls([]byte(bad)); err == nil {
			t.Errorf("parseCalls(%q) = %+v, want an error", bad, got)
		}
	}
}

// TestStreamContests checks that the required comparisons exist.
func TestStreamContests(t *testing.T) {
	goals := map[string]float64{}
	names := map[string]bool{}
	for _, c := range streamContests() {
		if names[c.name] {
			t.Errorf("streamContests() has %s twice", c.name)
		}
		names[c.name] = true
		for _, p := range c.entrants[1:] {
			goals[c.name+" "+p.name] = p.goal
		}
	}
	for name, want := range map[string]float64{
		"latency/64 rdmaperf": 1.2, "latency/64 rstream": 1, "latency/64/sleeping TCP": 0,
		"bandwidth/65536 rdmaperf": 1 / 0.85, "bandwidth/1048576 rstream": 1, "bandwidth/65536 TCP": 0,
		"rsocket/latency/64 rstream": 1, "rsocket/bandwidth/1048576 rstream": 1,
		"http/64/1 TCP": 0, "http/1048576/1 TCP": 0, "grpc/unary/64/1 TCP": 0, "grpc/streaming/64/1 TCP": 0,
	} {
		if got, ok := goals[name]; !ok || got != want {
			t.Errorf("goal of %s = %v, %t, want %v", name, got, ok, want)
		}
	}
}

// TestContest checks which rows are outside the goal, with made-up times.
func TestContest(t *testing.T) {
	took := func(median, mean float64) func(context.Context, *env) (figures, error) {
		return func(context.Context, *env) (figures, error) { return figures{message: median, mean: mean}, nil }
	}
	runs, failures := 0, 0
	fails := func(context.Context, *env) (figures, error) { failures++; return figures{}, io.ErrUnexpectedEOF }
	for _, c := range []struct {
		first   entrant
		others  []entrant
		outside []string
	}{
		{entrant{run: took(100, 130)}, []entrant{{name: "a", goal: 1.2, run: took(90, 1)}, {name: "b", goal: 1.2, run: took(80, 1000)}}, []string{"x against b"}},
		{entrant{run: took(100, 130)}, []entrant{{name: "a", goal: 1.2, mean: true, run: took(100, 0)}, {name: "b", run: took(1, 1)}}, []string{"x against a"}},
		{entrant{run: took(100, 130)}, []entrant{{name: "a", goal: 1.2, run: fails}, {name: "b", goal: 1, run: took(100, 1)}}, nil},
		{entrant{run: fails}, []entrant{{name: "a", run: took(1, 1)}}, []string{"x"}},
	} {
		runs++
		got, err := (&env{runs: 3}).contest(t.Context(), contest{"x", append([]entrant{c.first}, c.others...)})
		if err != nil || !slices.Equal(got, c.outside) {
			t.Errorf("contest %d = %q, %v, want %q", runs, got, err, c.outside)
		}
	}
	if failures != 2 {
		t.Errorf("programs that fail ran %d times, want once each", failures)
	}
}
