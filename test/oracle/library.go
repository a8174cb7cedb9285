// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"purerdma/test/microvm/apt"
	"purerdma/test/microvm/arch"
)

// releases lists the Debian releases whose rdma-core makes vectors. They are the release of the library's first
// version, and the newest one. The one between has vectors of the drivers in between.
var (
	releases = []string{"bookworm", "trixie", "sid"}
	between  = []string{"bnxt_re"}
)

// packages lists the packages for compiling for rdma-core and for running it. They include the C library, because
// the libraries of a release do not run with the C library of another release.
var packages = []string{"libibverbs-dev", "ibverbs-providers", "libc6-dev"}

const libs = "usr/lib/x86_64-linux-gnu"

// A library is the rdma-core of one release.
type library struct {
	root    string // directory of the unpacked packages
	bin     string // directory of the built dumpers
	version string // version of the package, such as "44.0-2"
}

func openLibrary(ctx context.Context, release string, refresh bool) (*library, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(base, "purerdma-oracle")
	a, err := apt.Open(ctx, filepath.Join(dir, "apt", release), arch.AMD64, release, false, refresh, os.Stderr)
	if err != nil {
		return nil, err
	}
	v, err := a.Version(ctx, packages[0])
	if err != nil {
		return nil, err
	}
	l := &library{root: filepath.Join(dir, release+"-"+v), version: v}
	l.bin = filepath.Join(l.root, "oracle")
	if _, err := os.Stat(l.root); err == nil {
		return l, nil
	}
	tmp := l.root + ".new"
	if err := os.RemoveAll(tmp); err != nil {
		return nil, err
	}
	// Linker scripts use the directories from before the merge of /lib into /usr/lib.
	if err := os.MkdirAll(filepath.Join(tmp, "usr/lib64"), 0o755); err != nil {
		return nil, err
	}
	for _, d := range []string{"lib", "lib64"} {
		if err := os.Symlink("usr/"+d, filepath.Join(tmp, d)); err != nil {
			return nil, err
		}
	}
	if err := a.UnpackAll(ctx, tmp, wanted, packages...); err != nil {
		return nil, err
	}
	// Since Linux 6.14 one package has the headers for all machines.
	asm := filepath.Join(tmp, "usr/include/x86_64-linux-gnu/asm")
	if _, err := os.Stat(asm); err != nil {
		if err := os.Symlink("../../lib/linux/uapi/x86/asm", asm); err != nil {
			return nil, err
		}
	}
	return l, os.Rename(tmp, l.root)
}

// wanted reports whether a file is needed to compile and run.
func wanted(name string) bool {
	for _, p := range []string{"usr/include/", "usr/lib/x86_64-linux-gnu/", "usr/lib64/", "usr/lib/linux/uapi/x86/"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// upstream returns the version without Debian's part, such as "44.0".
func (l *library) upstream() string {
	v, _, _ := strings.Cut(l.version, "-")
	return v
}

// provider returns the file of a driver's provider, and the version of the provider's interface to libibverbs. The
// version is in the file name.
func (l *library) provider(driver string) (file, version string, err error) {
	files, err := filepath.Glob(filepath.Join(l.root, libs, "libibverbs", "lib"+driver+"-rdmav*.so"))
	if err != nil || len(files) != 1 {
		return "", "", fmt.Errorf("rdma-core %s has %d providers of %s", l.version, len(files), driver)
	}
	_, version, _ = strings.Cut(strings.TrimSuffix(files[0], ".so"), "-rdmav")
	return files[0], version, nil
}

// build compiles the fake kernel and the dumpers.
func (l *library) build(ctx context.Context, src string) error {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return fmt.Errorf("find gcc to compile the oracle (apt-get install gcc): %w", err)
	}
	if err := os.MkdirAll(l.bin, 0o755); err != nil {
		return err
	}
	_, pabi, err := l.provider("siw")
	if err != nil {
		return err
	}
	major, _, _ := strings.Cut(l.version, ".")
	// Without these two options Debian's gcc searches the machine's own libraries before the libraries of a root
	// in another directory.
	lib := filepath.Join(l.root, libs)
	common := []string{"--sysroot=" + l.root, "-B" + lib, "-L" + lib, "-DPABI=" + pabi, "-DRDMA_CORE=" + major, "-O1", "-g", "-std=gnu17", "-Wall", "-Wextra", "-Werror"}
	gccRun := func(name string, args ...[]string) error {
		cmd := exec.CommandContext(ctx, gcc, slices.Concat(append([][]string{common, {"-o", filepath.Join(l.bin, name)}}, args...)...)...)
		cmd.Dir = src
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("gcc, %s for rdma-core %s: %w\n%s", name, l.version, err, out)
		}
		return nil
	}
	if err := gccRun(fakeKernel, []string{"-fPIC", "-shared", "shim.c", "log.c"}, sources(src, "kernel"), []string{"-ldl"}); err != nil {
		return err
	}
	built := map[string]bool{}
	for _, p := range plans {
		if built[p.dumper] {
			continue
		}
		built[p.dumper] = true
		if err := gccRun(p.dumper, sources(src, p.dumper), rig, p.libs, []string{"-libverbs", "-ldl"}); err != nil {
			return err
		}
	}
	return nil
}

// fakeKernel is the library with the fake kernel.
const fakeKernel = "libfakeuv.so"

// rig lists the sources that all dumpers share.
var rig = []string{"main.c", "rig.c", "pages.c", "print.c", "out.c", "trace.c"}

// sources lists the files NAME.c and NAME_*.c.
func sources(src, name string) []string {
	files, err := filepath.Glob(filepath.Join(src, name+"_*.c"))
	if err != nil {
		panic(err) // the pattern is constant
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	return append(files, name+".c")
}

// run runs one scenario and returns its records.
func (l *library) run(ctx context.Context, p plan, r process, seed uint64, n int) ([]byte, error) {
	sysfs, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(sysfs)
	if err := p.writeSysfs(sysfs); err != nil {
		return nil, err
	}
	env, err := l.environment(p, sysfs)
	if err != nil {
		return nil, err
	}
	lib := filepath.Join(l.root, libs)
	cmd := exec.CommandContext(ctx, filepath.Join(lib, "ld-linux-x86-64.so.2"), "--library-path", lib, "--preload", filepath.Join(l.bin, fakeKernel),
		filepath.Join(l.bin, p.dumper), r.scenario, fmt.Sprint(seed), fmt.Sprint(n))
	cmd.Env = append(env, r.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("rdma-core %s, %s %s %v: %w: %s", l.version, p.driver, r.scenario, r.env, err, tail(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// environment returns the whole environment of a program, so that the machine's environment does not affect it.
func (l *library) environment(p plan, sysfs string) ([]string, error) {
	env := []string{"LC_ALL=C", "SYSFS_PATH=" + sysfs, "FAKEUV_DRIVER=" + p.driver}
	if len(p.libs) > 0 {
		return env, nil // the program is linked with its provider
	}
	file, _, err := l.provider(p.driver)
	return append(env, "FAKEUV_PROVIDER="+file), err
}

// tail returns the end of a process's error output, because libmlx5 dumps every completion with an error.
func tail(s string) string { return s[max(0, len(s)-500):] }

// writeSysfs creates the files in which libibverbs searches for devices.
func (p plan) writeSysfs(dir string) error {
	verbs, dev := "class/infiniband_verbs/", "class/infiniband/"+p.device+"/"
	files := map[string]string{
		verbs + "abi_version":             "6",
		verbs + "uverbs0/ibdev":           p.device,
		verbs + "uverbs0/dev":             "1:5", // /dev/zero, see shim.c
		verbs + "uverbs0/abi_version":     p.abi,
		dev + "node_type":                 p.node,
		dev + "node_guid":                 "0002:c903:0000:0001",
		dev + "fw_ver":                    "22.36.1010",
		dev + "ports/1/gids/0":            "fe80:0000:0000:0000:0202:c9ff:fe00:0001",
		dev + "ports/1/gid_attrs/types/0": "RoCE v2",
		dev + "ports/1/gid_attrs/ndevs/0": "eth0",
		dev + "ports/1/link_layer":        "Ethernet",
	}
	for i := 1; i < 4; i++ {
		files[fmt.Sprintf("%sports/1/gids/%d", dev, i)] = "0000:0000:0000:0000:0000:ffff:0a00:0001"
		files[fmt.Sprintf("%sports/1/gid_attrs/types/%d", dev, i)] = []string{"", "IB/RoCE v1", "RoCE v2", "RoCE v2"}[i]
	}
	if p.modalias != "" {
		files[dev+"device/modalias"] = p.modalias
	}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
