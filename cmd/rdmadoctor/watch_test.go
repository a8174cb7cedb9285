// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"purerdma/rdmanl"
)

// example is a device with a listener, a connection, and a QP without an ID.
func example(seconds int, sent uint64) state {
	kernel := rdmanl.Owner{Kernel: "nvme_rdma"}
	return state{time: time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC), devices: []deviceState{{
		Device: rdmanl.Device{Index: 2, Name: "mlx5_0", Protocol: "roce"},
		ports: []portState{{
			rdmanl.Port{Number: 1, State: rdmanl.PortActive, PhysState: rdmanl.PhysLinkUp, Interface: "eth8"},
			[]rdmanl.HWCounter{{Name: "sent", Value: sent}, {Name: "errors"}, {Name: "resets", Value: 100 - sent/10}},
		}},
		summary: rdmanl.Summary{Kinds: []rdmanl.Count{{Kind: "qp", N: 3}, {Kind: "cq", N: 2}, {Kind: "cm_id", N: 2}}},
		ids: []rdmanl.CMID{
			{Number: 2, QP: 17, QPType: rdmanl.QPRC, State: rdmanl.CMConnect, Local: netip.MustParseAddrPort("10.0.0.1:7471"),
				Remote: netip.MustParseAddrPort("[fd00::2%3]:4000"), Owner: kernel},
			{Number: 1, State: rdmanl.CMListen, Local: netip.MustParseAddrPort("10.0.0.1:7471"), Remote: netip.MustParseAddrPort("0.0.0.0:0"),
				Owner: rdmanl.Owner{Kernel: "evil\x1b[2J"}},
		},
		qps: []rdmanl.QP{
			{Number: 1, Type: rdmanl.QPGSI, State: rdmanl.QPRTS, Owner: kernel},
			{Number: 17, Type: rdmanl.QPRC, State: rdmanl.QPRTS, RemoteNumber: 18, Owner: kernel},
			{Number: 19, Type: rdmanl.QPUC, State: rdmanl.QPErr, RemoteNumber: 20, Owner: kernel},
		},
		problems: []string{"list MRs: removed"},
	}}}
}

func TestTable(t *testing.T) {
	want := `DEVICE  PORT  STATE   LINK     INTERFACE  PROTOCOL  QPS  QP STATES     CQS  MRS  PDS  SRQS  CM_IDS  CONTEXTS
mlx5_0  1     ACTIVE  LINK_UP  eth8       roce      3    2 RTS, 1 ERR  2    0    0    0     2       0

DEVICE  CONNECTION  LOCAL          REMOTE            QP  TYPE  QP STATE  PID  COMMAND
mlx5_0  LISTEN      10.0.0.1:7471  -                 -   -     -         -    evil?[2J
mlx5_0  CONNECT     10.0.0.1:7471  [fd00::2%3]:4000  17  RC    RTS       -    nvme_rdma
mlx5_0  no CM_ID    -              QP 20             19  UC    ERR       -    nvme_rdma

DEVICE  PORT  COUNTER  RATE  TOTAL
mlx5_0  1     sent     25/s  150
mlx5_0  1     resets   -     85

mlx5_0: list MRs: removed`
	got := strings.Join(table(example(4, 150), example(2, 100)), "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table() differs (-want +got):\n%s", diff)
	}
	if got := strings.Join(table(example(2, 100), state{}), "\n"); !strings.Contains(got, "sent     -     100") {
		t.Errorf("first table() =\n%s\nwant no rate", got)
	}
}

func TestRate(t *testing.T) {
	for _, tc := range []struct {
		before, now uint64
		elapsed     time.Duration
		known       bool
		want        string
	}{
		{0, 5, time.Second, true, "5.0/s"}, {5, 5, time.Second, true, "0/s"}, {0, 5, 10 * time.Second, true, "0.5/s"},
		{0, 1 << 40, time.Second, true, "1099511627776/s"}, {6, 5, time.Second, true, "-"}, {0, 5, time.Second, false, "-"}, {0, 5, 0, true, "-"},
	} {
		if got := rate(tc.before, tc.now, tc.elapsed, tc.known); got != tc.want {
			t.Errorf("rate(%d, %d, %v, %v) = %q, want %q", tc.before, tc.now, tc.elapsed, tc.known, got, tc.want)
		}
	}
}

func TestFit(t *testing.T) {
	lines := []string{"äbcdef", "b", "c", "d"}
	for _, tc := range []struct {
		rows, columns int
		want          []string
	}{
		{0, 0, lines}, {4, 80, lines}, {3, 80, []string{"äbcdef", "b", "..."}}, {1, 2, []string{".."}}, {4, 3, []string{"äbc", "b", "c", "d"}},
	} {
		if diff := cmp.Diff(tc.want, fit(lines, tc.rows, tc.columns)); diff != "" {
			t.Errorf("fit(lines, %d, %d) differs (-want +got):\n%s", tc.rows, tc.columns, diff)
		}
	}
}

// TestWatchStates checks the interval, the output to files and terminals, and the end.
func TestWatchStates(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			s := &screen{out: &out}
			if terminal {
				s.size = func() (int, int) { return 4, 20 }
			}
			ctx, cancel := context.WithCancel(t.Context())
			start, reads := time.Now(), 0
			err := watchStates(ctx, func() (state, error) {
				if reads++; reads == 3 {
					cancel()
				}
				return example(reads, 100), nil
			}, 5*time.Second, s)
			if err != nil || reads != 3 || time.Since(start) != 10*time.Second {
				t.Errorf("watchStates() = %v after %d tables in %v, want nil after 3 in 10 s", err, reads, time.Since(start))
			}
			text := out.String()
			if n := strings.Count(text, "1 RDMA devices, every 5s\n"); !terminal && (n != 3 || strings.Contains(text, "\x1b")) {
				t.Errorf("output = %q, want 3 titles and no escape sequences", text)
			}
			if n := strings.Count(text, cursorHome); terminal && (n != 3 || !strings.HasPrefix(text, screenAlternate) || !strings.HasSuffix(text, screenNormal)) {
				t.Errorf("output to a terminal = %q, want 3 screens between %q and %q", text, screenAlternate, screenNormal)
			}
			if lines := strings.Count(text, "\n"); terminal && lines != 3*3 {
				t.Errorf("output to a terminal of 4 rows has %d line ends, want 9", lines)
			}
		})
	}
}

// TestWatchFails checks that the terminal is restored after an error.
func TestWatchFails(t *testing.T) {
	var out bytes.Buffer
	broken := errors.New("broken")
	err := watchStates(t.Context(), func() (state, error) { return state{}, broken }, time.Second, &screen{out: &out, size: func() (int, int) { return 0, 0 }})
	if !errors.Is(err, broken) || !strings.HasSuffix(out.String(), screenNormal) {
		t.Errorf("watchStates() = %v with output %q, want %v and a restored terminal", err, out.String(), broken)
	}
}

func TestWatchFlags(t *testing.T) {
	for _, args := range [][]string{{"-watch", "-v"}, {"-watch", "--json"}, {"-watch", "-interval", "1ms"}, {"-watch", "-interval", "x"}} {
		var out, errs bytes.Buffer
		if got := run(t.Context(), args, &out, &errs); got != statusUsage || errs.Len() == 0 {
			t.Errorf("run(%q) = %d with messages %q, want %d and a message", args, got, errs.String(), statusUsage)
		}
	}
}
