// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"purerdma/internal/vmtest"
)

// TestMain runs the program instead of the tests if it has the name that it has in the tutorial.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "web" {
		main()
		return
	}
	m.Run()
}

// TestCountScript runs the script of the tutorial that reads the counters before and after a transfer. Its output has the form
// that the tutorial shows.
func TestCountScript(t *testing.T) {
	vmtest.Hosts(t, 2)
	script := tutorialScript(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("Executable() = %v", err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "web")); err != nil {
		t.Fatalf("Symlink() = %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "count"), []byte(script), 0o644); err != nil {
		t.Fatalf("WriteFile() = %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "count")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sh count = %v with output %q", err, out)
	}
	form := regexp.MustCompile(`^(\d+)\nTCP segments: (\d+)\nHTTP/1\.1 200 OK, 1048576 bytes\n(\d+)\nTCP segments: (\d+)\n$`)
	found := form.FindStringSubmatch(string(out))
	if found == nil {
		t.Fatalf("output of sh count = %q, want the form of %v", out, form)
	}
	var n [5]int
	for i := range n[1:] {
		n[i+1], _ = strconv.Atoi(found[i+1]) // digits
	}
	const mtu = 4096 // the largest of RoCE
	if packets := n[3] - n[1]; packets < size/mtu {
		t.Errorf("packets of the device = %d, want at least %d", packets, size/mtu)
	}
	if n[4] != n[2] {
		t.Errorf("TCP segments = %d, want 0", n[4]-n[2])
	}
}

// tutorialScript returns the indented block of the tutorial that defines the function count.
func tutorialScript(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../../../docs/tutorial/http-over-rdma.md")
	if err != nil {
		t.Fatalf("ReadFile() = %v", err)
	}
	const indent = "    "
	_, after, ok := strings.Cut(string(b), "\n"+indent+"count() {\n")
	block, _, end := strings.Cut(after, "\n\n")
	if !ok || !end {
		t.Fatal("the tutorial has no function count")
	}
	var script strings.Builder
	script.WriteString("count() {\n")
	for line := range strings.Lines(block) {
		script.WriteString(strings.TrimPrefix(line, indent))
	}
	return script.String() + "\n"
}

// TestCountScriptSyntax checks the syntax of the script.
func TestCountScriptSyntax(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-n")
	cmd.Stdin = strings.NewReader(tutorialScript(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("sh -n = %v with output %q", err, out)
	}
}
