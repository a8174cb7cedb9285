// SPDX-License-Identifier: Apache-2.0

package b

import (
	"os"
	"testing"
)

func TestF(t *testing.T) {
	if os.Getenv("RDMAVM") != "1" {
		t.Fatal("not in a virtual machine")
	}
	if F(5) != 2 {
		t.Fatal("F(5)")
	}
	switch os.Getenv("E2E") {
	case "fail":
		t.Fatal("as asked")
	case "panic":
		panic("as asked")
	case "skip":
		t.Skip("as asked")
	}
}
