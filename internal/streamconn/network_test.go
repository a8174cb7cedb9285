// SPDX-License-Identifier: Apache-2.0

package streamconn

import (
	"errors"
	"net"
	"testing"
)

func TestNetwork(t *testing.T) {
	for name, want := range map[string]string{"tcp": "tcp", "tcp4": "tcp4", "tcp6": "tcp6", "rdma": "tcp", "udp": "", "ib": "", "": ""} {
		got, err := Network(name)
		if got != want || errors.As(err, new(net.UnknownNetworkError)) != (want == "") {
			t.Errorf("Network(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
}
