// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"purerdma/internal/vmtest"
)

// TestRun serves the page over RDMA in the micro-VM, and fetches it. The counters of the devices must count
// the page, and no TCP segment may be sent.
func TestRun(t *testing.T) {
	vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	vmtest.AnyMemory(t) // the listener registers more than siw allows by default
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ln, err := listen(ctx)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(ln) }()
	const want = "HTTP/1.1 200 OK, 1048576 bytes\n"
	var out strings.Builder
	vmtest.OverRDMA(t, size, func() {
		if err := fetch(ctx, &out); err != nil || out.String() != want {
			t.Errorf("fetch() = %v with output %q, want %q", err, out.String(), want)
		}
	})
	ln.Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("serve() = %v, want %v", err, net.ErrClosed)
	}
}
