// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// helper is the package that the tests that need RDMA import.
const helper = "purerdma/internal/vmtest"

// pkg is a package as reported by go list.
type pkg struct {
	ImportPath, Dir            string
	TestImports, XTestImports  []string
	TestGoFiles, XTestGoFiles  []string
	DepsErrors, InvalidGoFiles []any
}

// program is a package's test program with its arguments.
type program struct {
	pkg   string   // path in the module
	dir   string   // working directory
	args  []string // arguments, starting with the file.
	tests int      // number of tests that it runs, by their top-level names.
	left  int      // number of tests that the row skips because of the driver
}

// list returns the packages of a module that match its patterns.
func (m *module) list(ctx context.Context, env []string) ([]pkg, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,TestImports,XTestImports,TestGoFiles,XTestGoFiles"}, m.patterns...)...)
	cmd.Dir, cmd.Stderr, cmd.Env = m.dir, os.Stderr, env
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var pkgs []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}

// needVM returns the packages whose tests need RDMA.
func (m *module) needVM(ctx context.Context) ([]pkg, error) {
	pkgs, err := m.list(ctx, os.Environ())
	if err != nil {
		return nil, err
	}
	pkgs = slices.DeleteFunc(pkgs, func(p pkg) bool {
		return !slices.Contains(p.TestImports, helper) && !slices.Contains(p.XTestImports, helper)
	})
	if len(pkgs) == 0 {
		return nil, fmt.Errorf("no package in %s has tests that import %s", strings.Join(m.patterns, " "), helper)
	}
	return pkgs, nil
}

// build compiles the tests of all rows in the virtual machine. It compiles the programs of one
// kind in one command, and programs of several rows only once.
func build(ctx context.Context, rows []*row) error {
	type kind struct {
		dir, bins string
		race      bool
		env       string
	}
	packages := map[kind][]string{}
	owner := map[string]string{}  // packages by program
	have := map[string][]string{} // tests by program
	here := map[string][]string{} // of these, the tests that run on this machine only
	of := map[*row][]pkg{}
	for _, r := range rows {
		if !r.inVM() {
			continue
		}
		bins, err := r.binDir()
		if err != nil {
			return err
		}
		for _, m := range modulesOf(r.patterns) {
			pkgs, err := m.needVM(ctx)
			if err != nil {
				return err
			}
			of[r] = append(of[r], pkgs...)
			for _, p := range pkgs {
				k := kind{m.dir, filepath.Dir(file(bins, p.ImportPath, owner)), r.race, r.env}
				if !slices.Contains(packages[k], p.ImportPath) {
					packages[k] = append(packages[k], p.ImportPath)
				}
			}
		}
	}
	for k, paths := range packages {
		args := []string{"test", "-c", "-o", k.bins + "/"}
		if k.race {
			args = append(args, "-race")
		}
		cmd := exec.CommandContext(ctx, "go", append(args, paths...)...)
		cmd.Dir, cmd.Env = k.dir, append(os.Environ(), strings.Fields(k.env)...)
		if k.race {
			cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build the tests: %w\n%s", err, out)
		}
	}
	for r, pkgs := range of {
		bins, err := r.binDir()
		if err != nil {
			return err
		}
		for _, p := range pkgs {
			bin := file(bins, p.ImportPath, owner)
			dir := strings.TrimPrefix(p.ImportPath, "purerdma/")
			if have[bin] == nil {
				if have[bin], err = r.testsOf(ctx, bin); err != nil {
					return err
				}
				if err := checkSkips(have[bin], dir); err != nil {
					return err
				}
				if here[bin], err = onlyHere(p, have[bin]); err != nil {
					return err
				}
			}
			r.programs = append(r.programs, r.program(p.Dir, dir, bin, have[bin], here[bin]))
		}
		if args := strings.Fields(r.also); len(args) > 0 {
			if args[0], err = filepath.Abs(args[0]); err != nil {
				return err
			}
			tests, err := r.testsOf(ctx, args[0])
			if err != nil {
				return err
			}
			name := strings.TrimSuffix(filepath.Base(args[0]), ".test")
			args = slices.Insert(args, 1, "-test.v=test2json")
			r.programs = append(r.programs, program{pkg: name, args: args, tests: len(tests)})
		}
	}
	return nil
}

// file returns the file of the test program of the package pkg: in bins, or in a directory of its own if
// owner has another package with that file. go test -c names the program after the last element of the
// package's path, so packages such as a/faults and b/faults cannot share a directory.
func file(bins, pkg string, owner map[string]string) string {
	bin := filepath.Join(bins, path.Base(pkg)+".test")
	if o, ok := owner[bin]; ok && o != pkg {
		return filepath.Join(bins, pkg, path.Base(pkg)+".test")
	}
	owner[bin] = pkg
	return bin
}

// binDir returns the directory of the row's test programs.
func (r *row) binDir() (string, error) {
	dir := r.bins
	if r.race {
		dir += "-race"
	}
	if r.env != "" {
		dir += "-" + strings.NewReplacer(" ", "-", "=", "-").Replace(r.env)
	}
	return filepath.Abs(dir)
}

// parallel is the number of parallel tests (t.Parallel) that may overlap. It exceeds the
// machine's processors, because these tests wait more than they compute.
const parallel = "4"

// program returns the test program that the row runs for a package. It leaves out the tests in
// here.
func (r *row) program(dir, pkg, bin string, tests, here []string) program {
	args := []string{bin, "-test.v=test2json", "-test.count=1", "-test.timeout=" + r.timeout, "-test.parallel=" + parallel}
	args = append(args, strings.Fields(r.args)...)
	if r.run != "" {
		args = append(args, "-test.run="+r.run)
	}
	knownSkips := skipped(r.driver(), r.kernel(), pkg)
	skip := strings.Join(slices.DeleteFunc([]string{knownSkips, r.skip, exactly(here)}, func(s string) bool { return s == "" }), "|")
	if skip != "" {
		args = append(args, "-test.skip="+skip)
	}
	p := program{pkg: pkg, dir: dir, args: args}
	for _, name := range tests {
		switch {
		case !matches(r.run, name, true) || r.skip != "" && matches(r.skip, name, false) || slices.Contains(here, name):
		case knownSkips != "" && matches(knownSkips, name, false):
			p.left++
		default:
			p.tests++
		}
	}
	return p
}

// matches reports whether the pattern of -test.run or -test.skip matches the test, or a part of
// it if parts is set.
func matches(pattern, name string, parts bool) bool {
	for _, alternative := range split(pattern, '|') {
		levels := split(alternative, '/')
		if len(levels) > 1 && !parts {
			continue
		}
		if re, err := regexp.Compile(levels[0]); err != nil || re.MatchString(name) {
			return true
		}
	}
	return false
}

// split splits a pattern at each separator that is not in parentheses or brackets, as package testing does.
func split(pattern string, separator byte) []string {
	var elements []string
	start, depth, class := 0, 0, 0
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			class++
		case ']':
			class = max(class-1, 0) // an unmatched one is a literal
		case '(':
			if class == 0 {
				depth++
			}
		case ')':
			if class == 0 {
				depth--
			}
		case separator:
			if depth == 0 && class == 0 {
				elements = append(elements, pattern[start:i])
				start = i + 1
			}
		}
	}
	return append(elements, pattern[start:])
}

// testsOf returns the names of a test program's tests.
func (r *row) testsOf(ctx context.Context, bin string) ([]string, error) {
	args := append(strings.Fields(r.exec), bin, "-test.list", "^Test|^Example")
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s -test.list: %w", bin, err)
	}
	return append([]string{}, strings.Fields(string(out))...), nil
}
