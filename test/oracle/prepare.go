// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
)

// prepared says how another program is compiled for rdma-core and run on the fake
// kernel, for those who measure it.
type prepared struct {
	Version string   `json:"version"` // of rdma-core
	CFlags  []string `json:"cflags"`  // of gcc
	Env     []string `json:"env"`     // all that the program needs
	Run     []string `json:"run"`     // what comes before its name
}

// prepare builds the fake kernel, fills dir with what libibverbs looks for, and
// prints what to do with it.
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
	for _, p := range plans {
		if p.driver != o.driver {
			continue
		}
		if err := p.writeSysfs(dir); err != nil {
			return err
		}
	}
	libs := filepath.Join(lib.root, libs)
	return json.NewEncoder(os.Stdout).Encode(prepared{
		Version: lib.version,
		CFlags:  []string{"--sysroot=" + lib.root, "-B" + libs, "-L" + libs},
		Env:     []string{"LC_ALL=C", "SYSFS_PATH=" + dir, "FAKEUV_DRIVER=" + o.driver},
		Run: []string{filepath.Join(libs, "ld-linux-x86-64.so.2"), "--library-path", libs,
			"--preload", filepath.Join(lib.bin, "libfakeuv.so")},
	})
}
