// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"purerdma/internal/longtest"
	"purerdma/test/modcopy"
)

func TestText(t *testing.T) {
	r, err := newRenamer("rdma", "example.org/x/rdma")
	if err != nil {
		t.Fatalf("newRenamer: %v", err)
	}
	for in, want := range map[string]string{
		"import \"rdma/cm\"\nimport \"rdma/verbs\"\n": "import \"example.org/x/rdma/cm\"\nimport \"example.org/x/rdma/verbs\"\n",
		"module rdma\n":            "module example.org/x/rdma\n",
		`"\nmodule rdma\n"`:        `"\nmodule example.org/x/rdma\n"`,
		"module rdma/test/tools\n": "module example.org/x/rdma/test/tools\n",
		"\trdma v0.0.0\n":          "\texample.org/x/rdma v0.0.0\n",
		"replace rdma => ../..\n":  "replace example.org/x/rdma => ../..\n",
		"-require=rdma@v0.0.0 -replace=rdma=/path/to/rdma": "-require=example.org/x/rdma@v0.0.0 -replace=example.org/x/rdma=/path/to/rdma",
		`const module = "rdma"`:                            `const module = "example.org/x/rdma"`,
		"rdma/cm,rdma/verbs":                               "example.org/x/rdma/cm,example.org/x/rdma/verbs",
		"`^rdma/(cm|verbs)\\.`":                            "`^example.org/x/rdma/(cm|verbs)\\.`",
		// The name of the project, and of a directory.
		"# rdma\n\nrdma's programs": "# rdma\n\nrdma's programs",
		"../rdma/bin/rdmavm":        "../rdma/bin/rdmavm",
		"/path/to/rdma/bin/rdmavm":  "/path/to/rdma/bin/rdmavm",
		".vale/rdma/Spelling.yml":   ".vale/rdma/Spelling.yml",
		"librdma/cm":                "librdma/cm",
		"programs[\"rdma\"]":        "programs[\"rdma\"]",
		"importers of rdma never":   "importers of rdma never",
	} {
		if got := string(r.text([]byte(in))); got != want {
			t.Errorf("text(%q) = %q, want %q", in, got, want)
		}
		if got := string(r.text([]byte(want))); got != want {
			t.Errorf("text(%q) = %q, want no change", want, got)
		}
	}
}

func TestModulePath(t *testing.T) {
	for path, ok := range map[string]bool{
		"example.org/rdma": true, "git.example.org/a/rdma": true, "example.org/rdma/v2": true, "example.org/rdma.go": true,
		"rdma": false, "example.org": false, "example.org/": false, "/rdma": false, "https://example.org/rdma": false, "example.org/a b": false, "example.org/../x": false, "": false,
	} {
		if _, err := newRenamer("rdma", path); (err == nil) != ok {
			t.Errorf("newRenamer(%q) = %v, want success %v", path, err, ok)
		}
	}
}

// TestRenamedModule renames the module in a copy, twice, and runs the tests of the copy. It vets the modules below
// the renamed one, and runs the tests of the modules outside of the directory test.
func TestRenamedModule(t *testing.T) {
	longtest.Need(t)
	root := t.TempDir()
	modcopy.Files(t, filepath.Join("..", ".."), root)
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = root
		// The copy must not run this test again.
		cmd.Env = append(os.Environ(), "RDMA_LONG_TESTS=", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
		}
		return string(out)
	}
	const first, second = "zzz.example.org/first", "example.com/second/rdma"
	for _, name := range []string{first, second} {
		run("make", "module", "NAME="+name)
		if got := strings.TrimSpace(run("go", "list", "-m")); got != name {
			t.Fatalf("go list -m = %s, want %s", got, name)
		}
	}
	for file, path := range uses(t, root, `"purerdma/`, "module purerdma", first) {
		t.Errorf("%s contains %s after the second change", file, path)
	}
	if out := run("gofmt", "-l", "."); out != "" {
		t.Errorf("gofmt would change:\n%s", out)
	}
	run("go", "vet", "./...")
	for _, module := range modules(t, root) {
		if got, want := strings.TrimSpace(run("go", "-C", module, "list", "-m")), second+"/"+module; got != want {
			t.Errorf("go -C %s list -m = %s, want %s", module, got, want)
		}
		mod, err := os.ReadFile(filepath.Join(root, module, "go.mod"))
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		if !strings.Contains(string(mod), "replace "+second+" => ") {
			continue // uses no package of the renamed module
		}
		run("go", "-C", module, "vet", "./...")
		if !strings.HasPrefix(module, "test/") { // the others need servers and virtual machines
			run("go", "-C", module, "test", "./...")
		}
	}
	run("go", "test", "./...")
}

// TestModules checks that TestRenamedModule finds a module that programs import, and one below another.
func TestModules(t *testing.T) {
	got := modules(t, filepath.Join("..", ".."))
	for _, want := range []string{"prometheus", "test/nettest", "test/nettest/grpc"} {
		if !slices.Contains(got, want) {
			t.Errorf("modules(..) = %q, want also %s", got, want)
		}
	}
}

// modules returns the directories of the modules below root, relative to it. It leaves out the data of tests.
func modules(t *testing.T, root string) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err == nil && d.IsDir() && d.Name() == "testdata":
			return filepath.SkipDir
		case err != nil || d.Name() != "go.mod":
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if dir != "." {
			dirs = append(dirs, filepath.ToSlash(dir))
		}
		return err
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
	return dirs
}

// uses returns the files below root that contain one of the words, with the word. It leaves out
// this package, whose tests contain paths that do not change.
func uses(t *testing.T, root string, words ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Base(filepath.Dir(file)) == "rename" {
			return err
		}
		b, err := os.ReadFile(file)
		for _, w := range words {
			if strings.Contains(string(b), w) {
				found[file] = w
			}
		}
		return err
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
	return found
}
