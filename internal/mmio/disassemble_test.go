// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package mmio

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"purerdma/internal/longtest"
)

// instructions lists the relevant instructions of each architecture, with their names in the table below.
// They are fences, stores outside the stack, and forbidden instructions. The last patterns match all other
// stores.
var instructions = map[string][]struct {
	pattern *regexp.Regexp
	name    string
}{
	"amd64": {
		{regexp.MustCompile(`^(LOCK|XCHG|XADD|CMPXCHG|MFENCE|LFENCE|CLFLUSH)`), "forbidden"},
		{regexp.MustCompile(`^SFENCE`), "SFENCE"},
		{regexp.MustCompile(`^MOVUPS \S+, (0x[0-9a-f]+|0)\([A-Z0-9]+\)$`), "store128"},
		{regexp.MustCompile(`^MOVQ \S+, (0x[0-9a-f]+|0)\([A-Z0-9]+\)$`), "store64"},
		{regexp.MustCompile(`^MOVL \S+, (0x[0-9a-f]+|0)\([A-Z0-9]+\)$`), "store32"},
		{regexp.MustCompile(`^[A-Z]+ .*, \S*\([A-Z0-9]+\)$`), "other store"},
	},
	"arm64": {
		{regexp.MustCompile(`^(LDXR|STXR|SWP|CAS|LDADD|STLXR|LDAXR)`), "forbidden"},
		{regexp.MustCompile(`^DMB \$2$`), "DMB OSHST"},
		{regexp.MustCompile(`^DSB \$14$`), "DSB ST"},
		{regexp.MustCompile(`^(DMB|DSB|ISB)`), "other barrier"},
		{regexp.MustCompile(`^STLRW `), "release32"},
		{regexp.MustCompile(`^VST1.P \[V0.D2, V1.D2, V2.D2, V3.D2\], 64\(R\d+\)$`), "store512"},
		{regexp.MustCompile(`^MOVD R\d+, \d*\(R\d+\)$`), "store64"},
		{regexp.MustCompile(`^MOVW \S+, \(R\d+\)$`), "store32"},
		{regexp.MustCompile(`^(ST|VST|F?MOV)\S* .*, \S*\(R\d+\)$`), "other store"},
	},
}

func repeat(n int, s string) []string { return slices.Repeat([]string{s}, n) }

// want lists the fences and the stores of each function, in the order of its code. Ring and RingWrap store
// the next half, the record and the register.
//
// A register that takes blocks is write-combining memory. The stores fill buffers of the processor, and the
// device receives these buffers, so that stores of 16 and of 8 bytes are equivalent. (libmlx5 stores 8 bytes,
// UCX 16 if SSE 4.2 is compiled in.) In uncached memory each store would be one write of 16 bytes on the bus,
// in the same order. The 8 bytes of a doorbell are always one store.
var want = map[string]map[string][]string{
	"amd64": {
		"Ring": slices.Concat([]string{"store64", "store32", "SFENCE"}, repeat(4, "store128"), []string{"SFENCE", "store32"},
			[]string{"store64", "SFENCE", "store32"}),
		"RingWrap": slices.Concat([]string{"store64", "store32", "SFENCE"}, repeat(8, "store128"), []string{"SFENCE", "store32"}),
		"Arm":      {"store32", "SFENCE", "store64", "SFENCE"},
		"Doorbell": {"store64", "store64", "store32"},
		"Record":   {"store32"},
		"Copy":     {"SFENCE", "store64", "store64", "SFENCE"},
	},
	"arm64": {
		"Ring": {"store64", "DMB OSHST", "store32", "DSB ST", "store512", "DSB ST", "release32",
			"store64", "DSB ST", "release32"},
		"RingWrap": {"store64", "DMB OSHST", "store32", "DSB ST", "store512", "store512", "DSB ST", "release32"},
		"Arm":      {"DMB OSHST", "store32", "DSB ST", "store64", "DSB ST"},
		"Doorbell": {"DMB OSHST", "store64", "DMB OSHST", "store64", "release32"},
		"Record":   {"DMB OSHST", "store32"},
		"Copy":     {"DSB ST", "store64", "store64", "DSB ST"},
	},
}

// TestDisassembly compares the fences and the stores in a linked binary with the table.
func TestDisassembly(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command, to build and disassemble with")
	}
	for arch, functions := range want {
		t.Run(arch, func(t *testing.T) {
			if arch != runtime.GOARCH {
				longtest.Need(t) // it compiles the standard library for that architecture
			}
			bin := filepath.Join(t.TempDir(), "mmio.test")
			goRun(t, arch, "test", "-c", "-o", bin, ".")
			got := parse(arch, goRun(t, arch, "tool", "objdump", "-s", `^purerdma/internal/mmio\.[A-Z][A-Za-z0-9]+\.abi0$`, bin))
			for name, list := range functions {
				if !slices.Equal(got[name], list) {
					t.Errorf("instructions of %s = %q, want %q", name, got[name], list)
				}
			}
			for name := range got {
				if functions[name] == nil {
					t.Errorf("%s is in the binary, but not in the table of this test", name)
				}
			}
			// Reading the sources makes the go command depend the cached result on them. One of the two sources
			// is not compiled on this system, so that the go command has no other reason for it.
			source, err := os.ReadFile("mmio_" + arch + ".s")
			if err != nil {
				t.Fatalf("os.ReadFile: %v", err)
			}
			if n := bytes.Count(source, []byte("\nTEXT ")); n != len(functions) {
				t.Errorf("functions in the source = %d, want %d as in the table", n, len(functions))
			}
		})
	}
}

// TestOrdered has a table of fences for each architecture on which Ordered is true,
// and for no other.
func TestOrdered(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command, to list the files of a build with")
	}
	for arch := range strings.FieldsSeq("386 amd64 arm arm64 loong64 mips64le ppc64le riscv64 s390x") {
		files := strings.Fields(goRun(t, arch, "list", "-f", `{{join .GoFiles " "}}`, "."))
		if got, ordered := slices.Contains(files, "mmio_asm.go"), want[arch] != nil; got != ordered {
			t.Errorf("%s: use of mmio_asm.go = %v, want %v as in the table of TestDisassembly", arch, got, ordered)
		}
	}
}

// goRun runs the go command for an architecture.
func goRun(t *testing.T, arch string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=")
	if args[0] == "tool" {
		cmd.Env = append(os.Environ(), "GOFLAGS=")
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, &stderr)
	}
	return string(out)
}

// parse returns the named instructions of each function in a listing: lines of
// position, address, bytes and instruction, after one line with the function.
func parse(arch, listing string) map[string][]string {
	got := make(map[string][]string)
	var function string
	for line := range strings.Lines(listing) {
		f := strings.Fields(line)
		if len(f) > 1 && f[0] == "TEXT" {
			function = strings.TrimSuffix(strings.TrimPrefix(f[1], "purerdma/internal/mmio."), ".abi0(SB)")
			got[function] = nil
			continue
		}
		if len(f) < 4 {
			continue
		}
		text := strings.Join(f[3:], " ")
		for _, i := range instructions[arch] {
			if i.pattern.MatchString(text) {
				got[function] = append(got[function], i.name)
				break
			}
		}
	}
	return got
}

// TestParse checks that parse reports unknown stores and forbidden instructions, instead of ignoring them.
func TestParse(t *testing.T) {
	listing := "TEXT purerdma/internal/mmio.F.abi0(SB) mmio_amd64.s\n" +
		"  mmio_amd64.s:1  0x10 8908 MOVL CX, 0(AX)\n" +
		"  mmio_amd64.s:2  0x12 0faef8 SFENCE\n" +
		"  mmio_amd64.s:3  0x15 870b XCHGL CX, 0(BX)\n" +
		"  mmio_amd64.s:4  0x17 8808 MOVB CL, 0(AX)\n" +
		"  mmio_amd64.s:5  0x19 488b442408 MOVQ 0x8(SP), AX\n"
	if got := parse("amd64", listing)["F"]; !slices.Equal(got, []string{"store32", "SFENCE", "forbidden", "other store"}) {
		t.Errorf("parse = %q, want the store, the fence, the forbidden instruction and the other store", got)
	}
}
