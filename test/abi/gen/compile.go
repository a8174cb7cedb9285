// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"purerdma/test/abi/golden"
)

// A machine is an architecture to compile for.
type machine struct {
	debian  string
	triplet string
	linux   string // its name in the kernel's tree
}

var machines = []machine{
	{"amd64", "x86_64-linux-gnu", "x86"},
	{"arm64", "aarch64-linux-gnu", "arm64"},
}

// measure compiles the headers for every machine. The results must be equal.
func (s *store) measure(ctx context.Context, v version) (*golden.File, error) {
	var f *golden.File
	for _, m := range machines {
		headers, err := s.measureFor(ctx, v.version, m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.debian, err)
		}
		other := &golden.File{Version: v.version, Headers: headers}
		if f == nil {
			f = other
		} else if !f.SameHeaders(other) {
			return nil, fmt.Errorf("%s and %s do not agree:\n%s", machines[0].debian, m.debian, firstDiff(f.Text(), other.Text()))
		}
		f.Arches = append(f.Arches, m.debian)
	}
	return f, nil
}

// firstDiff returns the first line in which two texts differ.
func firstDiff(a, b string) string {
	la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(la), len(lb)) {
		if i > 0 && la[i] != lb[i] {
			return "- " + la[i] + "\n+ " + lb[i]
		}
	}
	return "one is longer"
}

// measureFor compiles the headers for one machine.
func (s *store) measureFor(ctx context.Context, version string, m machine) ([]*golden.Header, error) {
	includes, err := s.includes(version, m)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.dir, "compile")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c := cc{clang: s.clang, dir: dir, args: []string{"-target", m.triplet, "-nostdinc", "-Wno-everything"}}
	for _, i := range includes {
		c.args = append(c.args, "-isystem", i)
	}
	macros, err := c.macros(ctx)
	if err != nil {
		return nil, err
	}
	source, err := c.source(ctx, macros)
	if err != nil {
		return nil, err
	}
	object, err := c.compile(ctx, source)
	if err != nil {
		return nil, err
	}
	return readDWARF(object, includes[len(includes)-1], macros)
}

// cc returns the compiler with the arguments for one machine.
type cc struct {
	clang string
	dir   string
	args  []string
}

// run runs the compiler with its own dynamic linker and its own libraries.
func (c cc) run(ctx context.Context, args ...string) (stdout, stderr []byte, err error) {
	libs := filepath.Join(c.clang, "usr/lib/x86_64-linux-gnu")
	ld := filepath.Join(libs, "ld-linux-x86-64.so.2")
	clang := filepath.Join(c.clang, "usr/lib/llvm-14/bin/clang")
	args = slices.Concat([]string{"--library-path", libs + ":" + filepath.Join(c.clang, "usr/lib/llvm-14/lib"), clang}, c.args, args)
	cmd := exec.CommandContext(ctx, ld, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	stdout, err = cmd.Output()
	return stdout, errs.Bytes(), err
}

// include returns a source file that includes all headers.
func include() string {
	var b strings.Builder
	for _, h := range golden.Headers {
		fmt.Fprintf(&b, "#include <%s>\n", h)
	}
	return b.String()
}

// A macro is a #define of a header.
type macro struct {
	header string
	name   string
	params string // with the parentheses, or empty
	value  bool   // the macro is an integer
}

var (
	lineMarker = regexp.MustCompile(`^# \d+ "(.*)"`)
	define     = regexp.MustCompile(`^#define (\w+)(\([^)]*\))? ?(.*)$`)
)

// macros lists the macros of the headers, except include guards.
func (c cc) macros(ctx context.Context) ([]macro, error) {
	name := filepath.Join(c.dir, "macros.c")
	if err := os.WriteFile(name, []byte(include()), 0o644); err != nil {
		return nil, err
	}
	out, stderr, err := c.run(ctx, "-E", "-dD", name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr)
	}
	var ms []macro
	header := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		if m := lineMarker.FindStringSubmatch(line); m != nil {
			header = headerOf(m[1])
			continue
		}
		m := define.FindStringSubmatch(line)
		if m == nil || header == "" || m[3] == "" {
			continue
		}
		ms = append(ms, macro{header: header, name: m[1], params: strings.ReplaceAll(m[2], " ", ""), value: m[2] == ""})
	}
	return ms, nil
}

// headerOf returns the header of a file name, or "".
func headerOf(file string) string {
	for _, h := range golden.Headers {
		if strings.HasSuffix(file, "/"+h) {
			return h
		}
	}
	return ""
}

// prefix begins the names of the enumerators with the values of macros.
const prefix = "value_of_"

var errorLine = regexp.MustCompile(`(?m)^macros\.c:(\d+):\d+: error: `)

// source writes the file to compile. It includes the headers, and has an enumerator for each macro that is an
// integer. The compiler reports the macros that are no integers.
func (c cc) source(ctx context.Context, ms []macro) (string, error) {
	first := len(golden.Headers) + 1
	for {
		var b strings.Builder
		b.WriteString(include())
		lines := map[int]int{} // from a line of the file to an index
		for i, m := range ms {
			if m.value {
				lines[first+len(lines)] = i
				fmt.Fprintf(&b, "enum { %s%s = (%s) };\n", prefix, m.name, m.name)
			}
		}
		name := filepath.Join(c.dir, "macros.c")
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			return "", err
		}
		_, stderr, err := c.run(ctx, "-fsyntax-only", "-ferror-limit=0", "macros.c")
		if err == nil {
			return name, nil
		}
		bad := errorLine.FindAllSubmatch(stderr, -1)
		if len(bad) == 0 {
			return "", fmt.Errorf("%w: %s", err, stderr)
		}
		for _, e := range bad {
			line, _ := strconv.Atoi(string(e[1]))
			i, ok := lines[line]
			if !ok {
				return "", fmt.Errorf("%w: %s", err, stderr)
			}
			ms[i].value = false
		}
	}
}

// compile returns the name of the object file.
func (c cc) compile(ctx context.Context, source string) (string, error) {
	object := strings.TrimSuffix(source, ".c") + ".o"
	_, stderr, err := c.run(ctx, "-c", "-gdwarf-4", "-fno-eliminate-unused-debug-types", "-o", object, source)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, stderr)
	}
	return object, nil
}
