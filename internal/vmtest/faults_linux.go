// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
)

// Fault requests a fault of the host's device, which rdmavm models. The arguments are the
// words and numbers in the list of "go doc purerdma/cmd/rdmavm", such as "port-down" or "lose", 3.
func (h Host) Fault(t testing.TB, words ...any) {
	t.Helper()
	if err := h.TryFault(words...); err != nil {
		t.Fatalf("h.TryFault(words...): %v", err)
	}
}

// TryFault is Fault for a request that may be refused.
func (h Host) TryFault(words ...any) error {
	ends, err := Ends()
	if err != nil {
		return err
	}
	c, err := net.Dial("unix", os.Getenv("RDMAVM_FAULTS"))
	if err != nil {
		return fmt.Errorf("request a fault: %w", err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "hca%d %s", slices.Index(ends, h), fmt.Sprintln(words...)); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && answer != "\n" {
		err = fmt.Errorf("%s", strings.TrimSpace(answer))
	}
	return err
}
