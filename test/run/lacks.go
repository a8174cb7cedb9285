// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
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

// flaky are the drivers with a fault that hits any test by chance: a few that fail
// are run again, which the output says.
var flaky = map[string]string{
	"siw": "siw loses a first message now and then (docs/driver-faults.md)",
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

// checkLacks fails if the table names a test of pkg that a test program does not
// have.
func checkLacks(ctx context.Context, bin, pkg string) error {
	out, err := exec.CommandContext(ctx, bin, "-test.list", ".").Output()
	if err != nil {
		return fmt.Errorf("%s -test.list: %w", bin, err)
	}
	have := strings.Fields(string(out))
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
