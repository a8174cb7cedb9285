// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"strings"
	"testing"
	"time"

	"purerdma/test/connectx"
)

// TestFaults: what a line asks for happens, and one that asks for nothing that there
// is says why.
func TestFaults(t *testing.T) {
	h, err := startHCAs(t.Context(), 2, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer h.stop()
	for line, want := range map[string]string{
		"hca0 port-down": "", "hca1 port-up": "", "hca1 fatal 0x7": "",
		"hca0 fail-command 0x400 0x3 0xabcd 1": "",
		"hca0 quirks 1 1 1":                    "",
		"hca0 stray 0":                         "no QP was destroyed",
		"":                                     "DEVICE FAULT",
		"hca0":                                 "DEVICE FAULT",
		"hca2 port-up":                         "no such device",
		"hca0 explode":                         "no such fault, but delay, drain, fail-command, fail-cq, ",
		"hca0 lose":                            "numbers are: MESSAGES",
		"hca0 delay 1":                         "numbers are: MESSAGES MICROSECONDS",
		"hca0 lose -1":                         `"-1"`,
		"hca0 lose 0x100000000":                "out of range",
		"hca0 fail-qp 77 0x10":                 "no QP 0x4d",
		"hca0 fail-qp 77 1":                    "no event",
		"hca0 fail-next 77 5":                  "no QP 0x4d",
		"hca0 fail-next-receive 77 5":          "no QP 0x4d",
		"hca0 drain 77\n":                      `fault "hca0 drain 77": there is no QP in RTS 0x4d`,
		"hca0 fail-cq 9":                       "no CQ 0x9",
	} {
		err := h.fault(line)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

// TestRules: of each device's messages, as many as the last line says.
func TestRules(t *testing.T) {
	h, err := startHCAs(t.Context(), 2, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer h.stop()
	for _, line := range []string{"hca0 delay 5 1", "hca0 lose 2", "hca1 delay 1 3000"} {
		if err := h.fault(line); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []connectx.Fate{connectx.Lost, connectx.Lost, connectx.Arrives} {
		if got, delay := h.fate(&connectx.Packet{From: "hca0"}); got != want || delay != 0 {
			t.Errorf("message %d: %v, %v", i, got, delay)
		}
	}
	if got, delay := h.fate(&connectx.Packet{From: "hca1"}); got != connectx.Arrives || delay != 3*time.Millisecond {
		t.Errorf("the other's: %v, %v", got, delay)
	}
	if err := h.fault("hca1 silent 1"); err != nil {
		t.Fatal(err)
	}
	if got, _ := h.fate(&connectx.Packet{From: "hca1", To: "hca0"}); got != connectx.Lost {
		t.Errorf("a silent device's message: %v", got)
	}
	if got, _ := h.fate(&connectx.Packet{From: "hca0", To: "hca1"}); got != connectx.AnswerLost {
		t.Errorf("what it would answer to: %v", got)
	}
	if err := h.fault("hca1 silent 0"); err != nil {
		t.Fatal(err)
	}
	if err := h.fault("hca0 lose-answers 1"); err != nil {
		t.Fatal(err)
	}
	if got, _ := h.fate(&connectx.Packet{From: "hca0"}); got != connectx.AnswerLost {
		t.Errorf("got %v", got)
	}
}
