// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// knownSkip is a set of tests that a driver, or a kernel's version of it, cannot pass for a
// reason outside of this module. The row skips them, so that a test never has to skip itself.
type knownSkip struct {
	driver string
	kernel string // value of rdmavm -kernel, "" for all.
	pkg    string // relative to the module
	tests  string // top-level names, or one test with a subtest after "/".
	why    string
	seen   string // observed behavior, with its source
}

// skipped returns the pattern for -test.skip of a package on a driver and a kernel, or ""
// without known skips. The driver bnxt_re-p7 of rdmavm also has the rows of bnxt_re.
func skipped(driver, kernel, pkg string) string {
	var names []string
	family, _, _ := strings.Cut(driver, "-")
	for _, l := range knownSkips {
		if l.driver != driver && l.driver != family || l.kernel != "" && l.kernel != kernel || l.pkg != pkg {
			continue
		}
		for name := range strings.FieldsSeq(l.tests) {
			levels := strings.Split(name, "/")
			for i := range levels {
				levels[i] = "^" + levels[i] + "$"
			}
			names = append(names, strings.Join(levels, "/"))
		}
	}
	return strings.Join(names, "|")
}

// checkSkips fails if the table contains a test of pkg that is not in have, the tests of its
// test program.
func checkSkips(have []string, pkg string) error {
	for _, l := range knownSkips {
		if l.pkg != pkg {
			continue
		}
		for name := range strings.FieldsSeq(l.tests) {
			top, _, _ := strings.Cut(name, "/")
			if re := regexp.MustCompile("^" + top + "$"); !slices.ContainsFunc(have, re.MatchString) {
				return fmt.Errorf("skips_table.go: test %s of %s does not exist", name, pkg)
			}
		}
	}
	return nil
}

// flagValue returns the value of a flag in the flags for rdmavm.
func flagValue(flags []string, name, otherwise string) string {
	for i, f := range flags {
		f = "-" + strings.TrimLeft(f, "-")
		if v, ok := strings.CutPrefix(f, "-"+name+"="); ok {
			return v
		}
		if f == "-"+name && i+1 < len(flags) {
			return flags[i+1]
		}
	}
	return otherwise
}
