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
	"strings"

	"purerdma/test/microvm/apt"
	"purerdma/test/microvm/arch"
)

// releases lists the Debian releases whose rdma-core makes vectors. They are the release of the library's first
// version, and the newest one.
var releases = []string{"bookworm", "sid"}

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
	// Without these two options Debian's gcc searches the machine's own libraries before the libraries of a root
	// in another directory.
	lib := filepath.Join(l.root, libs)
	common := []string{"--sysroot=" + l.root, "-B" + lib, "-L" + lib, "-DPABI=" + pabi, "-O1", "-g", "-std=gnu17", "-Wall", "-Wextra", "-Werror"}
	for _, t := range []struct {
		out  string
		args []string
	}{
		{"libfakeuv.so", []string{"-fPIC", "-shared", "shim.c", "log.c", "kernel.c", "kernel_mlx5.c", "kernel_sw.c", "-ldl"}},
		{"mlx5", []string{"mlx5.c", "mlx5_rig.c", "mlx5_cqe.c", "mlx5_rc.c", "mlx5_lists.c", "mlx5_types.c", "mlx5_srq.c", "mlx5_dc.c", "mlx5_cqs.c", "mlx5_ece.c",
			"rig.c", "print.c", "out.c", "trace.c", "-lmlx5", "-libverbs", "-ldl"}},
		{"sw", []string{"sw.c", "sw_scenarios.c", "rig.c", "print.c", "out.c", "-libverbs", "-ldl"}},
	} {
		cmd := exec.CommandContext(ctx, gcc, append(append(common, "-o", filepath.Join(l.bin, t.out)), t.args...)...)
		cmd.Dir = src
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("gcc, %s for rdma-core %s: %w\n%s", t.out, l.version, err, out)
		}
	}
	return nil
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
	dumper := p.driver
	if dumper != "mlx5" {
		dumper = "sw"
	}
	file, _, err := l.provider(p.driver)
	if err != nil {
		return nil, err
	}
	lib := filepath.Join(l.root, libs)
	cmd := exec.CommandContext(ctx, filepath.Join(lib, "ld-linux-x86-64.so.2"), "--library-path", lib, "--preload", filepath.Join(l.bin, "libfakeuv.so"),
		filepath.Join(l.bin, dumper), r.scenario, fmt.Sprint(seed), fmt.Sprint(n))
	// The environment must not affect the vectors.
	cmd.Env = append([]string{"LC_ALL=C", "SYSFS_PATH=" + sysfs, "FAKEUV_DRIVER=" + p.driver,
		"FAKEUV_PROVIDER=" + file}, r.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("rdma-core %s, %s %s %v: %w: %s", l.version, p.driver, r.scenario, r.env, err, tail(stderr.String()))
	}
	return stdout.Bytes(), nil
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
	if p.driver == "mlx5" {
		files[dev+"device/modalias"] = "pci:v000015B3d00001019sv000015B3sd00000008bc02sc00i00"
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
