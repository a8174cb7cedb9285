// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
)

// TestDatagramsAreNotDialed checks that Dial refuses datagrams before it looks up or opens
// anything. The error names the methods for datagrams.
func TestDatagramsAreNotDialed(t *testing.T) {
	ctx := context.Background()
	errs := map[string]error{}
	for _, network := range []string{"udp", "udp4", "udp6"} {
		_, errs[network] = Dial(ctx, network, "no-such-host.invalid:7")
	}
	for name, err := range errs {
		oe := new(OpError)
		if !errors.As(err, &oe) || oe.Op != opConnect || !errors.Is(err, syscall.EOPNOTSUPP) ||
			!strings.Contains(err.Error(), "Resolved.Lookup") || !strings.Contains(err.Error(), "Request.Answer") {
			t.Errorf("Dial(%s) = %v, want EOPNOTSUPP with Resolved.Lookup and Request.Answer", name, err)
		}
	}
}
