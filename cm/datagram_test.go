// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"purerdma/verbs"
)

// TestDatagramsAreNotDialed: that is said before anything is opened or looked up, and
// with whose methods to do it.
func TestDatagramsAreNotDialed(t *testing.T) {
	ctx, to := context.Background(), mustAddr("10.8.0.1:7")
	errs := map[string]error{}
	for _, network := range []string{"udp", "udp4", "udp6"} {
		_, errs[network] = Dial(ctx, network, "no-such-host.invalid:7")
	}
	_, errs["port space"] = new(Dialer).DialInfo(ctx, AddrInfo{PortSpace: PortSpaceUDP, DstAddr: to})
	_, errs["QP type"] = new(Dialer).DialInfo(ctx, AddrInfo{PortSpace: PortSpaceIB, QPType: verbs.UD, DstAddr: to})
	for name, err := range errs {
		oe := new(OpError)
		if !errors.As(err, &oe) || oe.Op != opConnect || !errors.Is(err, syscall.EOPNOTSUPP) ||
			!strings.Contains(err.Error(), "Resolved.Lookup") || !strings.Contains(err.Error(), "Request.Answer") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
