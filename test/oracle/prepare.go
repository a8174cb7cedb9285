// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// prepared has the parameters for compiling another program for rdma-core, and for running it on the fake kernel. A
// benchmark uses them.
type prepared struct {
	Version string   `json:"version"` // version of rdma-core
	CFlags  []string `json:"cflags"`  // flags for gcc
	Env     []string `json:"env"`     // the whole environment of the program
	Run     []string `json:"run"`     // command line in front of the program's name
}

// prepare builds the fake kernel, fills dir with the files for libibverbs, and prints a prepared.
func prepare(ctx context.Context, root, dir string, o options) error {
	if o.driver == "" {
		o.driver = plans[0].driver
	}
	if o.release == "" {
		o.release = releases[0]
	}
	lib, err := openLibrary(ctx, o.release, o.refresh)
	if err != nil {
		return err
	}
	if err := lib.build(ctx, filepath.Join(root, "test/oracle/c")); err != nil {
		return err
	}
	i := slices.IndexFunc(plans, func(p plan) bool { return p.driver == o.driver })
	if i < 0 {
		return fmt.Errorf("no driver %q", o.driver)
	}
	if err := plans[i].writeSysfs(dir); err != nil {
		return err
	}
	env, err := lib.environment(plans[i], dir)
	if err != nil {
		return err
	}
	libs := filepath.Join(lib.root, libs)
	return json.NewEncoder(os.Stdout).Encode(prepared{
		Version: lib.version,
		CFlags:  []string{"--sysroot=" + lib.root, "-B" + libs, "-L" + libs},
		Env:     env,
		Run: []string{filepath.Join(libs, "ld-linux-x86-64.so.2"), "--library-path", libs,
			"--preload", filepath.Join(lib.bin, fakeKernel)},
	})
}
