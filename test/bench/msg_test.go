// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"io"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/test/connectx/inprocess"
)

// TestCaller runs the two ends of msg on a model of ConnectX.
func TestCaller(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	k := cmtest.New(inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1"))
	for _, kind := range messageKinds {
		for _, goroutines := range []int{1, 4} {
			c := caller{host: k.Host(), kind: kind, goroutines: goroutines}
			r, w := io.Pipe()
			served := make(chan error, 1)
			go func() { served <- c.serve(ctx, "10.0.0.1:0", w) }()
			addr, err := bufio.NewReader(r).ReadString('\n')
			if err != nil {
				t.Fatalf("%s: the server's address: %v", kind, err)
			}
			took, err := c.measure(ctx, "10.0.0.2:0", addr[:len(addr)-1], 10)
			if err != nil || took <= 0 {
				t.Errorf("%s: measure() = %v, %v, want a time", kind, took, err)
			}
			if err := <-served; err != nil {
				t.Errorf("%s: serve() = %v, want nil", kind, err)
			}
		}
	}
	if left := k.Left(); len(left) > 0 {
		t.Errorf("the ends have left %v", left)
	}
}

// TestMessageBenches checks that the other program of each comparison has the size and the count of the calls.
func TestMessageBenches(t *testing.T) {
	for _, b := range messageBenches() {
		size := bulkLen
		if b.small() {
			size = smallLen
		}
		if o := b.other; o.size != size || o.latency() != b.half || !o.latency() && (o.depth() != b.goroutines || o.count() != b.calls) {
			t.Errorf("%s: the other program runs %+v, want %d bytes, %d at a time, %d times", b.what, o, size, b.goroutines, b.calls)
		}
	}
}
