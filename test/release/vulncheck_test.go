// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/internal/longtest"
)

// TestVulncheck runs make vulncheck with databases of its own.
func TestVulncheck(t *testing.T) {
	longtest.Need(t)
	run := func(db string) (string, error) {
		cmd := exec.Command("make", "--no-print-directory", "vulncheck", "VULNDB="+db)
		cmd.Dir = filepath.Join("..", "..")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const notChecked = "not checked: the database of vulnerabilities cannot be reached"
	if out, err := run("http://127.0.0.1:1"); err != nil || !strings.Contains(out, notChecked) {
		t.Errorf("make vulncheck without a database = %v, want success with %q:\n%s", err, notChecked, out)
	}
	if out, err := run(database(t, "golang.org/x/not-used")); err != nil || strings.Contains(out, notChecked) || !strings.Contains(out, "No vulnerabilities found") {
		t.Errorf("make vulncheck without vulnerabilities = %v:\n%s", err, out)
	}
	if out, err := run(database(t, "golang.org/x/sys")); err == nil || !strings.Contains(out, "GO-2026-9999") {
		t.Errorf("make vulncheck with a vulnerability = %v, want a failure with GO-2026-9999:\n%s", err, out)
	}
}

// database returns the URL of a database with one vulnerability, in all versions of a module.
func database(t *testing.T, module string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index/db.json":      `{"modified":"2026-11-24T00:00:00Z"}`,
		"index/modules.json": `[{"path":"MODULE","vulns":[{"id":"GO-2026-9999","modified":"2026-11-24T00:00:00Z"}]}]`,
		"index/vulns.json":   `[{"id":"GO-2026-9999","modified":"2026-11-24T00:00:00Z"}]`,
		"ID/GO-2026-9999.json": `{"schema_version":"1.3.1","id":"GO-2026-9999","modified":"2026-11-24T00:00:00Z","published":"2026-11-24T00:00:00Z",
"summary":"Test","details":"Test","affected":[{"package":{"name":"MODULE","ecosystem":"Go"},
"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],
"ecosystem_specific":{"imports":[{"path":"MODULE/unix"}]}}]}`,
	} {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatalf("os.MkdirAll: %v", err)
		}
		if err := os.WriteFile(to, []byte(strings.ReplaceAll(text, "MODULE", module)), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	return "file://" + dir
}
