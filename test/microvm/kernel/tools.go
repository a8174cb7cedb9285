// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// tools are the machine's programs that a build runs.
var tools = []struct{ program, pkg string }{
	{"gcc", "gcc"},
	{"x86_64-linux-gnu-ld", "binutils"}, // as Debian's headers call it
	{"make", "make"},
	{"tar", "tar"},
	{"xz", "xz-utils"},
}

// buildable says what a build lacks, if anything.
func buildable(dir string) error {
	// make takes the first two apart, a recipe's shell the rest.
	if i := strings.IndexAny(dir, " :#$%'\"\\"); i >= 0 {
		return fmt.Errorf("the cache is in %s, and the kernel's makefiles cannot work in a path with %q: set RDMAVM_CACHE to another", dir, dir[i])
	}
	return missing(exec.LookPath)
}

// missing returns an error that names the packages of the programs that look
// does not find.
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
	return errors.New("this machine lacks what that takes: install " + p + " (apt-get install " + p + ")")
}
