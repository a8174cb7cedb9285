// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/internal/vmtest"
	"purerdma/stream"
)

// network connects the two sides of a test that runs on fake kernels, in a virtual machine, and between two of them.
type network struct {
	// run starts a server, calls the client with a dialer and the address of the server, and stops the server. stop
	// also closes the listener.
	run func(t *testing.T, serve func(ln net.Listener) (stop func()), client func(d *stream.Dialer, address string))
	// check runs a function that transfers at least size bytes, and checks that RDMA carries them. The client calls it.
	check func(t *testing.T, size int64, run func())
}

// onFakes runs a test on the fake kernels.
func onFakes(t *testing.T, test func(t *testing.T, n network)) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		test(t, network{
			run: func(t *testing.T, serve func(net.Listener) func(), client func(*stream.Dialer, string)) {
				ln := listen(t, k, ends{})
				defer serve(ln)()
				client(&stream.Dialer{CM: cm.Dialer{Host: k.Host()}}, ln.Addr().String())
			},
			check: func(_ *testing.T, _ int64, run func()) { run() },
		})
	})
}

// inVM is the network of the virtual machine. With rdmavm -vms it connects two of them.
var inVM = network{
	run: func(t *testing.T, serve func(net.Listener) func(), client func(*stream.Dialer, string)) {
		hosts := vmtest.Hosts(t, 2)
		vmtest.NoLeaks(t)
		vmtest.AnyMemory(t)
		lc := stream.ListenConfig{Options: stream.Options{}.WithoutRNR()}
		d := stream.Dialer{Options: lc.Options, CM: cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(hosts[1].IPv4, 0))}}
		sides := vmtest.Sides{
			Listen: func(ctx context.Context, address string) (net.Listener, error) { return lc.Listen(ctx, "tcp", address) },
			Dial:   func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) },
			Serve:  serve,
			Call:   func(address string) { client(&d, address) },
		}
		sides.Run(t, hosts[0].IPv4)
	},
	check: func(t *testing.T, size int64, run func()) { vmtest.OverRDMA(t, size, run) },
}

// connect dials the server. The cleanup of the test closes the connection.
func connect(t *testing.T, d *stream.Dialer, address string) *stream.Conn {
	t.Helper()
	c, err := d.DialContext(streamconntest.Deadline(t), "tcp", address)
	if err != nil {
		t.Fatalf("DialContext: %v", err)
	}
	t.Cleanup(func() { streamconntest.Abort(c.(*stream.Conn)) })
	return c.(*stream.Conn)
}

// serveConn serves the first connection of a listener. stop closes it, and waits until the function returns.
func serveConn(t *testing.T, ln net.Listener, serve func(c net.Conn)) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			t.Errorf("Accept: %v", err)
			return
		}
		defer c.Close()
		serve(c)
	}()
	return func() {
		ln.Close() // ends Accept if there was no connection
		<-done
	}
}
