// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// lack is a test that a driver, or a kernel's version of it, cannot pass, through
// no fault of ours. It is left out there, so that a test never skips itself.
type lack struct {
	driver string
	kernel string // as rdmavm -kernel has it; "" is all
	pkg    string // relative to the module
	tests  string // names at the top level, or one test with a subtest after "/"
	why    string
	seen   string // what it does instead, and where that is known from
}

// skipped returns the pattern for -test.skip of a package on a driver and a
// kernel, "" if nothing is left out.
func skipped(driver, kernel, pkg string) string {
	var names []string
	for _, l := range lacks {
		if l.driver != driver || l.kernel != "" && l.kernel != kernel || l.pkg != pkg {
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

// checkLacks fails if the table names a test of pkg that its test program, which has
// the tests in have, does not have.
func checkLacks(have []string, pkg string) error {
	for _, l := range lacks {
		if l.pkg != pkg {
			continue
		}
		for name := range strings.FieldsSeq(l.tests) {
			top, _, _ := strings.Cut(name, "/")
			if re := regexp.MustCompile("^" + top + "$"); !slices.ContainsFunc(have, re.MatchString) {
				return fmt.Errorf("lacks.go names %s of %s, which does not exist", name, pkg)
			}
		}
	}
	return nil
}

// flagValue returns the value of a flag among those for rdmavm.
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
