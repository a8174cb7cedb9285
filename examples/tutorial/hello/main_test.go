// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"purerdma/internal/vmtest"
)

// TestRun runs both roles in the micro-VM. The client tries again until the server listens.
func TestRun(t *testing.T) {
	vmtest.Hosts(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var served, called strings.Builder
	done := make(chan error, 1)
	go func() { done <- server(ctx, &served) }()
	err := client(ctx, &called)
	for err != nil && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
		err = client(ctx, &called)
	}
	if err != nil || called.String() != "client: received \"hello\"\n" {
		t.Errorf("client = %v with output %q", err, called.String())
	}
	if err := <-done; err != nil || served.String() != "server: received \"hello\"\n" {
		t.Errorf("server = %v with output %q", err, served.String())
	}
}
