// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"net"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/stream"
	"purerdma/test/connectx/inprocess"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
)

// TestInterop runs the cases on fake devices of two kinds.
func TestInterop(t *testing.T) {
	for name, machine := range map[string]func() uverbs.Kernel{
		"rxe":  func() uverbs.Kernel { return uverbstest.New("rxe0", "rxe1") },
		"mlx5": func() uverbs.Kernel { return inprocess.New(inprocess.Config{}, "mlx5_0", "mlx5_1") },
	} {
		t.Run(name, func(t *testing.T) {
			k := cmtest.New(machine())
			runCases(t, network{
				run: func(t *testing.T, serve func(net.Listener) func(), client func(*stream.Dialer, string)) {
					lc := stream.ListenConfig{CM: cm.ListenConfig{Host: k.Host()}}
					ln, err := lc.Listen(t.Context(), "tcp", "10.0.0.1:0")
					if err != nil {
						t.Fatalf("Listen: %v", err)
					}
					defer serve(ln)()
					client(&stream.Dialer{CM: cm.Dialer{Host: k.Host()}}, ln.Addr().String())
				},
				check: func(_ *testing.T, _ int64, run func()) { run() },
			})
		})
	}
}
