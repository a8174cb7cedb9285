// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// tools lists the machine's programs that a build runs.
var tools = []struct{ program, pkg string }{
	{"gcc", "gcc"},
	{"x86_64-linux-gnu-ld", "binutils"}, // the name in Debian's headers
	{"make", "make"},
	{"xz", "xz-utils"},
}

// buildable returns an error if a build is not possible.
func buildable(dir string) error {
	// make interprets the first two characters, and a recipe's shell the others.
	if i := strings.IndexAny(dir, " :#$%'\"\\"); i >= 0 {
		return fmt.Errorf("the kernel's makefiles do not support a path with %[2]q: %[1]s (set RDMAVM_CACHE to another directory)", dir, dir[i])
	}
	return missing(exec.LookPath)
}

// missing returns an error with the packages of the programs that look does not find.
func missing(look func(program string) (string, error)) error {
	var packages []string
	for _, t := range tools {
		if _, err := look(t.program); err != nil {
			packages = append(packages, t.pkg)
		}
	}
	if packages == nil {
		return nil
	}
	p := strings.Join(packages, " ")
	return errors.New("missing build programs of " + p + " (apt-get install " + p + ")")
}
