// SPDX-License-Identifier: Apache-2.0

// Mutate checks that the tests of package abi detect errors. In a copy of the package it changes a struct by one
// byte, or a constant by one, and runs the tests. It repeats this with other changes. A change without a
// failing test is an error.
//
//	go run ./test/abi/mutate [-seed 1] [-n 10]
package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"purerdma/test/abi/source"
)

func main() {
	seed := flag.Uint64("seed", 1, "which structs, constants and changes")
	n := flag.Int("n", 10, "how many structs, and how many constants")
	flag.Parse()
	if err := run(*seed, *n); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(seed uint64, n int) error {
	root, err := source.Root()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyModule(root, dir); err != nil {
		return err
	}
	if out, err := test(dir); err != nil {
		return fmt.Errorf("the tests fail without a change: %s", out)
	}
	ms, err := mutations(dir, rand.New(rand.NewPCG(seed, 0)), n)
	if err != nil {
		return err
	}
	fmt.Println("| where | change | found by | message |\n|---|---|---|---|")
	unseen := 0
	for _, m := range ms {
		found, err := try(dir, m)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", m.where, m.what, err)
		}
		if found == "" {
			found = "**nothing** | "
			unseen++
		}
		fmt.Printf("| %s | %s | %s |\n", m.where, m.what, found)
	}
	if unseen > 0 {
		return fmt.Errorf("%d of %d changes were not found", unseen, len(ms))
	}
	fmt.Printf("\n%d of %d changes found\n", len(ms), len(ms))
	return nil
}

// copyModule copies the files that the tests of package abi need.
func copyModule(root, dir string) error {
	for _, name := range []string{"abi", "test/abi/golden", "test/abi/mirrors", "test/abi/source"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(root, name))); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module purerdma\n\ngo 1.26.0\n"), 0o644)
}

// test runs the tests.
func test(dir string) (string, error) {
	cmd := exec.Command("go", "test", "./abi")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var (
	failed  = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	message = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: (.*)$`)
	logged  = regexp.MustCompile(`: \d+ (structs|constants)$`) // a log line, no failure
)

// try runs the tests with one change. It returns the failed test and its message as two columns. A change that
// does not compile is an error, because no test has found it.
func try(dir string, m mutation) (string, error) {
	file := filepath.Join(dir, m.file)
	old, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	defer os.WriteFile(file, old, 0o644)
	changed := bytes.Clone(old[:m.from])
	changed = append(changed, m.text...)
	changed = append(changed, old[m.to:]...)
	if err := os.WriteFile(file, changed, 0o644); err != nil {
		return "", err
	}
	out, err := test(dir)
	if err == nil {
		return "", nil
	}
	name := failed.FindStringSubmatch(out)
	for _, text := range message.FindAllStringSubmatch(out, -1) {
		if name != nil && !logged.MatchString(text[1]) {
			return name[1] + " | " + strings.ReplaceAll(text[1], "|", `\|`), nil
		}
	}
	return "", fmt.Errorf("does not compile: %s", out)
}
