// SPDX-License-Identifier: Apache-2.0

package litmus

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// protocols parses all files.
func protocols(t *testing.T) map[string]*Protocol {
	t.Helper()
	files, err := filepath.Glob("testdata/*.litmus")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	out := map[string]*Protocol{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		p, err := Parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[strings.TrimSuffix(filepath.Base(file), ".litmus")] = p
	}
	return out
}

// TestProtocols checks each protocol on each architecture, and without each of its barriers.
func TestProtocols(t *testing.T) {
	for name, p := range protocols(t) {
		for arch := range architectures {
			t.Run(name+"/"+arch, func(t *testing.T) {
				r := p.Check(arch)
				for _, problem := range r.Problems {
					t.Error(problem)
				}
				t.Logf("%d barriers needed, %d spare", r.Needed, r.Spare)
			})
		}
	}
}

// TestCode compares the files with the functions that they describe.
func TestCode(t *testing.T) {
	for name, p := range protocols(t) {
		for _, c := range p.Code {
			if err := c.Find(root); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestEachAccessHasAProtocol looks for functions that access shared memory and are in no file.
func TestEachAccessHasAProtocol(t *testing.T) {
	described := map[string]bool{}
	for _, p := range protocols(t) {
		for _, c := range p.Code {
			described[c.File+" "+c.Function] = true
		}
	}
	for _, tc := range []struct {
		files string
		uses  *regexp.Regexp // in the body of a function
	}{
		{"internal/mmio/mmio_*.s", regexp.MustCompile(`RET`)},
		{"internal/ring/*.go", regexp.MustCompile(`[^.\w](?:load|store)\([rs]\.`)},
		{"provider/rxe/*.go", regexp.MustCompile(`\.Notify\(`)},
		{"provider/siw/*.go", regexp.MustCompile(`\.control\.\w+\(`)},
		{"provider/mlx5/*.go", regexp.MustCompile(`mmio\.(?:Ring|RingWrap|Arm|Record)\(`)},
		{"provider/mlx5/*.go", regexp.MustCompile(`spin\.StoreRelease\((?:&e\.head|c\.bell)`)},
		{"provider/bnxt_re/*.go", regexp.MustCompile(`mmio\.(?:Doorbell|Copy)\(`)},
		{"provider/bnxt_re/*.go", regexp.MustCompile(`spin\.StoreRelease\(&[rs]\.tail`)},
		{"provider/erdma/*.go", regexp.MustCompile(`mmio\.Doorbell\(`)},
		{"provider/erdma/*.go", regexp.MustCompile(`spin\.StoreRelease\((?:&e\.head|&c\.ci|&[rs]\.tail)`)},
		{"provider/internal/spin/*.go", regexp.MustCompile(`StoreRelease\(&l\.word`)},
	} {
		files, err := filepath.Glob(filepath.Join(root, tc.files))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files: %v", tc.files, err)
		}
		found := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			functions, err := Functions(file)
			if err != nil {
				t.Fatalf("Functions: %v", err)
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatalf("filepath.Rel: %v", err)
			}
			for fn, body := range functions {
				if !tc.uses.MatchString(body) {
					continue
				}
				if found++; !described[name+" "+fn] {
					t.Errorf("%s: %s accesses shared memory, but no file of testdata describes it", name, fn)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: no function matches %v", tc.files, tc.uses)
		}
	}
}

// TestCheckNotices checks that wrong files have problems.
func TestCheckNotices(t *testing.T) {
	const good = `code x.go f: a
thread writer
	store data 1
	atomic.store flag 1 spare amd64
thread reader
	atomic.load a flag
	load b data
never a=1 b=0
sometimes a=1 b=1
`
	problems := func(text string) (n int) {
		p, err := Parse(text)
		if err != nil {
			t.Fatalf("Parse: %v", err)
		}
		return len(p.Check("amd64").Problems) + len(p.Check("arm64").Problems)
	}
	if got := problems(good); got != 0 {
		t.Errorf("Check of the correct file = %d problems, want 0", got)
	}
	for name, change := range map[string][2]string{
		"a missing barrier":          {"atomic.load a flag", "load a flag"},
		"a spare barrier":            {" spare amd64", ""},
		"a needed barrier":           {"atomic.load a flag", "atomic.load a flag spare arm64"},
		"a possible outcome":         {"never a=1 b=0", "never a=0 b=0"},
		"an impossible outcome":      {"sometimes a=1 b=1", "sometimes a=1 b=0"},
		"a fault that is impossible": {"sometimes a=1 b=1", "sometimes a=1 b=1\narm64: fault a=1 b=0"},
	} {
		if got := problems(strings.Replace(good, change[0], change[1], 1)); got == 0 {
			t.Errorf("Check with %s = no problem", name)
		}
	}
	for name, change := range map[string][2]string{
		"an unknown operation": {"load b data", "fetch b data"},
		"a missing argument":   {"load b data", "load b"},
		"an unknown register":  {"never a=1 b=0", "never a=1 c=0"},
		"a register set twice": {"load b data", "load a data"},
		"no outcome":           {"never a=1 b=0\n", ""},
		"no code":              {"code x.go f: a\n", ""},
		"another architecture": {"load b data", "load b data\n\tamd64: DSB ST"},
	} {
		p, err := Parse(strings.Replace(good, change[0], change[1], 1))
		if err == nil && len(p.Check("amd64").Problems) == 0 {
			t.Errorf("Parse with %s = nil error", name)
		}
	}
}
