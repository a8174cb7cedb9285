// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const text = `linux-libc-dev 6.1.192-2 amd64 arm64
header rdma/a.h
define A 4096
macro B(x)
enum -
	C -1
struct a 24
	x 0 4 __u32
	- 8 16 union
		- 8 8 struct
			y 8 8 __u64
		z 8 16 __u8[16]
header linux/in6.h
struct sockaddr_in6 28
`

func TestRoundTrip(t *testing.T) {
	f, err := Parse(text)
	if err != nil {
		t.Fatalf("Parse(text): %v", err)
	}
	if got := f.Text(); got != text {
		t.Errorf("Text() =\n%s\nwant\n%s", got, text)
	}
	if f.Kernel() != "6.1" {
		t.Errorf("Kernel() = %s, want 6.1", f.Kernel())
	}
	if s := f.Inner("a.@8.@8"); s == nil || s.Size != 8 || s.Members[0].Offset != 0 {
		t.Errorf("Inner(a.@8.@8) = %+v, want a struct of 8 bytes with offset 0", s)
	}
}

func TestGoldenFilesRoundTrip(t *testing.T) {
	names, err := filepath.Glob("../../../abi/testdata/" + FileName("*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("filepath.Glob = %v, %v, want golden files", names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		f, err := Parse(string(b))
		if err != nil {
			t.Fatalf("Parse(%s): %v", name, err)
		}
		if f.Text() != string(b) {
			t.Errorf("Text() of the parsed %s differs from the file", name)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const first = "linux-libc-dev 6.1 amd64\n"
	for _, bad := range []string{
		"", "linux 6.1 amd64\n", first + "define A 1\n", first + "header x\nthing y\n", first + "header x\ndefine A z\n",
		first + "header x\nstruct y\n", first + "header x\nstruct y 4\n\ta 0 4\n", first + "header x\nstruct y 4\n\t\ta 0 4 __u32\n",
	} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("Parse(%q) = nil error, want an error", bad)
		}
	}
}

func TestCompare(t *testing.T) {
	if Compare("6.12.117-1", "6.1.192-2") <= 0 || Compare("7.3", "6.12") <= 0 || Compare("6.1", "6.1") != 0 {
		t.Error("Compare does not order 6.1 < 6.12 < 7.3")
	}
	if !strings.HasPrefix(FileName("1"), Package) {
		t.Errorf("FileName(1) = %s, want the prefix %s", FileName("1"), Package)
	}
}
