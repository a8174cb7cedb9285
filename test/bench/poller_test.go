// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/uverbs/uverbstest"
)

// TestEchoes runs the two ends of poller on a fake kernel with rxe devices.
func TestEchoes(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
			e := echoes{host: k.Host(), shared: shared, conns: 20}
			r, w := io.Pipe()
			served := make(chan error, 1)
			go func() { served <- e.serve(ctx, "10.0.0.1:0", w) }()
			addr, err := bufio.NewReader(r).ReadString('\n')
			if err != nil {
				t.Fatalf("the server's address: %v", err)
			}
			var out bytes.Buffer
			if err := e.measure(ctx, "10.0.0.2:0", addr[:len(addr)-1], 10, &out); err != nil {
				t.Errorf("measure() = %v, want nil", err)
			}
			if err := <-served; err != nil {
				t.Errorf("serve() = %v, want nil", err)
			}
			var got echoRun
			if _, err := fmt.Sscan(out.String(), &got.us, &got.goroutines, &got.threads); err != nil || !(got.us > 0) {
				t.Errorf("measure() printed %q (%v), want a time and two numbers", out.String(), err)
			}
			if left := k.Left(); len(left) > 0 {
				t.Errorf("the ends have left %v", left)
			}
		})
	}
}
