// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/internal/longtest"
)

// TestExternalModule imports the library from another module. That module must only get x/sys,
// netlink and their dependencies, and no test packages.
func TestExternalModule(t *testing.T) {
	root := moduleRoot(t)
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	write("go.sum", string(sum))
	write("go.mod", "module stranger\n\ngo 1.26.0\n\nrequire purerdma v0.0.0\n\nreplace purerdma => "+root+"\n")
	write("main.go", `package main

import (
	"context"
	"fmt"

	"purerdma/cm"
	"purerdma/verbs"
)

func main() {
	_, err := cm.Dial(context.Background(), "tcp", "10.8.0.1:7471")
	fmt.Println(err, verbs.DefaultHost())
}
`)
	for _, goos := range []string{"linux", "darwin", "windows"} {
		env := []string{"CGO_ENABLED=0", "GOOS=" + goos, "GOWORK=off", "GOFLAGS=-mod=mod"}
		deps := goRun(t, dir, env, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
		if !strings.Contains(deps, "purerdma/uverbs") {
			t.Fatalf("go list -deps lacks purerdma/uverbs:\n%s", deps)
		}
		for _, p := range strings.Fields(deps) {
			switch {
			case p == "stranger", strings.HasPrefix(p, "golang.org/x/sys/"),
				strings.HasPrefix(p, "github.com/vishvananda/netlink"), strings.HasPrefix(p, "github.com/vishvananda/netns"):
			case strings.HasPrefix(p, "purerdma/") && !strings.HasPrefix(p, "purerdma/test/") && p != "purerdma/internal/vmtest":
			default:
				t.Errorf("on %s an importer gets %s", goos, p)
			}
		}
		if goos == "linux" || longtest.Enabled() { // other systems need their standard library compiled
			goRun(t, dir, env, "build", "-o", os.DevNull, ".")
		}
	}
}
