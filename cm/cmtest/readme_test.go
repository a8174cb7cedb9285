// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cmtest_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"purerdma/cm"
)

// refuse refuses every connect request.
func refuse(ctx context.Context, ln *cm.Listener) {
	for {
		req, err := ln.Accept(ctx)
		if err != nil {
			return
		}
		req.Reject([]byte("no room"))
	}
}

// TestREADME compares the test that the README shows with the one that runs here.
func TestREADME(t *testing.T) {
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(example), "func TestRefusal")
	code = "func TestRefusal" + code
	var want strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(code, "\t", "    ")) {
		want.WriteString("    " + line)
	}
	if !ok || !strings.Contains(string(readme), want.String()) {
		t.Errorf("README.md does not contain\n%s", want.String())
	}
}
