// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"net"
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

// network connects the two sides of a test that runs on fake kernels and in the virtual machine.
type network struct {
	// ends returns a listener, and a dialer on the other side.
	ends func(t *testing.T) (net.Listener, *stream.Dialer)
	// check runs a function that transfers at least size bytes, and checks that RDMA carries them.
	check func(t *testing.T, size int64, run func())
}

// onFakes runs a test on the fake kernels.
func onFakes(t *testing.T, test func(t *testing.T, n network)) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		test(t, network{
			ends: func(t *testing.T) (net.Listener, *stream.Dialer) {
				return listen(t, k, ends{}), &stream.Dialer{CM: cm.Dialer{Host: k.Host()}}
			},
			check: func(_ *testing.T, _ int64, run func()) { run() },
		})
	})
}

// inVM is the network of the virtual machine.
var inVM = network{
	ends:  func(t *testing.T) (net.Listener, *stream.Dialer) { return vmEnds(t, ends{}) },
	check: overRDMA,
}

// pair connects two streams. The cleanup of the test closes them.
func (n network) pair(t *testing.T) (client, server *stream.Conn) {
	t.Helper()
	ln, d := n.ends(t)
	c, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("DialContext: %v", err)
	}
	t.Cleanup(func() { streamconntest.Abort(c.(*stream.Conn)) })
	return c.(*stream.Conn), accept(t, ln)
}
