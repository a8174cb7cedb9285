// SPDX-License-Identifier: Apache-2.0

// Mutate measures the tests of a provider that has registers, provider/mlx5, provider/erdma or provider/bnxt_re. In a copy of the module, it
// makes one small change in the provider or in internal/mmio, and runs the tests. Examples are a missing mask, a shift by
// one more, or two bytes in the wrong order. It repeats this with other changes. It lists the test that detected each
// change, and the undetected changes.
//
//	go run ./test/mutate [-driver mlx5] [-seed 1] [-n 60] [-run REGEXP]
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"purerdma/test/abi/source"
)

type options struct {
	seed   uint64
	n      int
	match  string
	driver string
	list   bool
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "which changes")
	flag.IntVar(&o.n, "n", 60, "how many of them; 0 for all")
	flag.StringVar(&o.driver, "driver", "mlx5", "whose provider: mlx5, erdma or bnxt_re")
	flag.StringVar(&o.match, "run", "", "only those whose place or description this regular expression matches")
	flag.BoolVar(&o.list, "list", false, "only say which")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	root, err := source.Root()
	if err != nil {
		return err
	}
	ms, err := mutations(root, o.driver)
	if err != nil {
		return err
	}
	if ms, err = pick(ms, o); err != nil {
		return err
	}
	if o.list {
		for _, m := range ms {
			fmt.Printf("%s: %s: %s\n", m.kind, m.where, m.what)
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyModule(ctx, root, dir); err != nil {
		return err
	}
	tests := tests(o.driver)
	if out, err := test(ctx, dir, append(tests, ofMMIO)); err != nil {
		return fmt.Errorf("the tests fail without a change: %s", out)
	}
	return report(ctx, dir, tests, ms)
}

// report makes the changes one after the other and prints a table.
func report(ctx context.Context, dir string, tests []goTest, ms []mutation) error {
	fmt.Println("| where | change | found by |\n|---|---|---|")
	var unseen []mutation
	seen := 0
	for _, m := range ms {
		found, err := try(ctx, dir, tests, m)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %s: %w", m.where, m.what, err)
		case found == notCompiled:
			continue
		case found == "":
			unseen = append(unseen, m)
			found = "**nothing**"
		default:
			seen++
		}
		fmt.Printf("| %s | %s | %s |\n", m.where, m.what, found)
	}
	fmt.Printf("\n%d of %d changes seen\n", seen, seen+len(unseen))
	if len(unseen) > 0 {
		fmt.Println("\nNot seen:")
		for _, m := range unseen {
			fmt.Printf("- %s: %s\n", m.where, m.what)
		}
	}
	return nil
}

// copyModule copies the files of the module.
func copyModule(ctx context.Context, root, dir string) error {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			return err
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// tests lists the tests to run until the first failure. They are the provider's own tests, package verbs
// on an mlx5 kernel in memory, and the provider's long tests.
func tests(driver string) []goTest {
	ts := []goTest{{args: []string{"-failfast", "./provider/" + driver + "/..."}}}
	if driver == "mlx5" {
		ts = append(ts, goTest{args: []string{"-run", "/^mlx5$", "./verbs"}})
	}
	return append(ts, goTest{args: []string{"-failfast", "./provider/" + driver}, env: []string{"RDMA_LONG_TESTS=1"}})
}

// goTest is a call of go test.
type goTest struct {
	args, env []string
}

// ofMMIO contains the tests of internal/mmio, which other changes do not affect.
var ofMMIO = goTest{args: []string{"./internal/mmio"}}

// test runs tests.
func test(ctx context.Context, dir string, tests []goTest) (string, error) {
	for _, t := range tests {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1", "-timeout=3m"}, t.args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), t.env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return string(out), err
		}
	}
	return "", nil
}

var (
	failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	crash  = regexp.MustCompile(`(?m)^(panic: test timed out|panic: |fatal error: |unexpected fault address|SIGSEGV|signal: )(.{0,60})`)
	broken = regexp.MustCompile(`\[(build|setup) failed\]`)
)

// notCompiled is the result of try for an invalid change.
const notCompiled = "does not compile"

// try runs the tests with one change and returns the first failed test.
func try(ctx context.Context, dir string, tests []goTest, m mutation) (string, error) {
	file := filepath.Join(dir, m.file)
	old, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	defer os.WriteFile(file, old, 0o644)
	changed := append(append(bytes.Clone(old[:m.from]), m.text...), old[m.to:]...)
	if err := os.WriteFile(file, changed, 0o644); err != nil {
		return "", err
	}
	which := tests
	if strings.HasPrefix(m.file, "internal/mmio") {
		which = append([]goTest{ofMMIO}, tests...)
	}
	out, err := test(ctx, dir, which)
	switch {
	case err == nil:
		return "", nil
	case broken.MatchString(out):
		return notCompiled, nil
	}
	// The innermost test has the most specific name.
	if all := failed.FindAllStringSubmatch(out, -1); len(all) > 0 {
		name := all[0][1]
		for _, f := range all {
			if strings.HasPrefix(f[1], name+"/") {
				name = f[1]
			}
		}
		return name, nil
	}
	if c := crash.FindStringSubmatch(out); c != nil {
		return strings.TrimSpace(c[1] + c[2]), nil
	}
	return "", fmt.Errorf("failed without saying why: %s", out)
}
