// SPDX-License-Identifier: Apache-2.0

//go:build linux

package oob_test

import (
	"context"
	"net"
	"testing"
	"time"

	"purerdma/oob"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// TestExampleConnectActive runs the example against its other side, on fake devices in memory.
func TestExampleConnectActive(t *testing.T) {
	host := &verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: uverbstest.New("rxe0", "rxe1")}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	dialing, accepting := net.Pipe()
	defer dialing.Close()
	defer accepting.Close()
	open := func(name string) *verbs.Device {
		dev, err := host.Open(name)
		if err != nil {
			t.Fatalf("host.Open: %v", err)
		}
		t.Cleanup(func() { dev.Close() })
		return dev
	}
	here, there := open("rxe0"), open("rxe1")
	heard := make(chan string, 1)
	go func() {
		words, err := greet(ctx, there, accepting, "and to you", oob.ConnectPassive)
		if err != nil {
			t.Errorf("greet of the accepting side = %v", err)
		}
		heard <- words
	}()
	words, err := greet(ctx, here, dialing, "hello", oob.ConnectActive)
	if other := <-heard; err != nil || words != "and to you" || other != "hello" {
		t.Errorf("greet = %q, %v, and %q at the other side, want \"and to you\" and \"hello\"", words, err, other)
	}
}
