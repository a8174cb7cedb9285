// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"net"
	"net/rpc"
	"sync"
	"testing"

	"purerdma/internal/apptest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
)

// TestRPC runs net/rpc on the fake kernels.
func TestRPC(t *testing.T) { onFakes(t, callAdd) }

// TestVMRPC runs net/rpc between two devices.
func TestVMRPC(t *testing.T) {
	vmtest.Need(t)
	callAdd(t, inVM)
}

// Calculator is a service of net/rpc.
type Calculator struct{}

// Add adds two numbers.
func (Calculator) Add(in [2]int, out *int) error {
	*out = in[0] + in[1]
	return nil
}

// callAdd calls Add from several goroutines.
func callAdd(t *testing.T, n apptest.Network) {
	server := rpc.NewServer()
	if err := server.Register(Calculator{}); err != nil {
		t.Fatalf("server.Register: %v", err)
	}
	n.Run(t, func(ln net.Listener) func() {
		return serveConn(t, ln, func(c net.Conn) { server.ServeConn(c) })
	}, func(d *stream.Dialer, address string) {
		client := rpc.NewClient(connect(t, d, address))
		defer client.Close()
		const callers, calls = 10, 50
		n.Check(t, callers*calls*2, func() { // at least the numbers
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					for j := range calls {
						var got int
						if err := client.Call("Calculator.Add", [2]int{i, j}, &got); err != nil || got != i+j {
							t.Errorf("Add(%d, %d) = %d, %v, want %d", i, j, got, err, i+j)
						}
					}
				})
			}
			all.Wait()
		})
	})
}
