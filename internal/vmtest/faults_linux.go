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

// Fault has the host's device fail in a way that only a software ConnectX can: the
// words and numbers that "go doc purerdma/cmd/rdmavm" lists, such as "port-down" or
// "lose", 3.
func (h Host) Fault(t testing.TB, words ...any) {
	t.Helper()
	if err := h.TryFault(words...); err != nil {
		t.Fatal(err)
	}
}

// TryFault is Fault for words that may be refused.
func (h Host) TryFault(words ...any) error {
	ends, err := Ends()
	if err != nil {
		return err
	}
	c, err := net.Dial("unix", os.Getenv("RDMAVM_FAULTS"))
	if err != nil {
		return fmt.Errorf("ask for a fault: %w", err)
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
