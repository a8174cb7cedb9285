// SPDX-License-Identifier: Apache-2.0

package a

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

func TestFiles(t *testing.T) {
	b, err := os.ReadFile("testdata/file")
	if err != nil || string(b) != "data\n" {
		t.Fatalf("os.ReadFile = %q, %v, want %q", b, err, "data\n")
	}
	if err := os.WriteFile("written", b, 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	if err := os.WriteFile("/etc/rdmavm-e2e", b, 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	if err := os.WriteFile(t.TempDir()+"/x", b, 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
}
