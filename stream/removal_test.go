// SPDX-License-Identifier: Apache-2.0

package stream_test

import (
	"testing"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/stream"
)

func TestRemoval(t *testing.T) {
	streamconntest.OnMachines(t, func(t *testing.T, k *cmtest.Kernel) {
		device, remove := streamconntest.RemoveSecond(t, k)
		ln := listen(t, k, ends{})
		d := stream.Dialer{CM: cm.Dialer{Host: k.Host(), LocalAddr: cm.AddrFrom(streamconntest.Second)}}
		c, err := d.DialContext(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("DialContext: %v", err)
		}
		streamconntest.Removal(t, c.(*stream.Conn), accept(t, ln), device, remove)
	})
}
