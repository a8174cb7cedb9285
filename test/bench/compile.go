// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// sources has the C sides for which rdma-core and perftest have no program.
//
//go:embed testdata/*.c
var sources embed.FS

// compile compiles testdata/NAME.c to a program in dir.
func compile(ctx context.Context, dir, name string, libraries ...string) (program string, err error) {
	text, err := sources.ReadFile("testdata/" + name + ".c")
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, name)
	if err := os.WriteFile(program+".c", text, 0o600); err != nil {
		return "", err
	}
	args := append([]string{"-O2", "-Wall", "-o", program, program + ".c"}, libraries...)
	out, err := exec.CommandContext(ctx, "gcc", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("the C side needs gcc, libibverbs-dev and librdmacm-dev: %w: %s", err, lastLines(out))
	}
	return program, nil
}
