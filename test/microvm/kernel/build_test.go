// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/test/microvm/arch"
)

func TestSourcePackage(t *testing.T) {
	for version, want := range map[string]string{
		"6.1.192-2":       "linux-source-6.1",
		"6.12.117-1":      "linux-source-6.12",
		"7.3.4-1~bpo13+1": "linux-source-7.3",
		"none":            "",
	} {
		if got, err := sourcePackage(version); got != want || (err == nil) != (want != "") {
			t.Errorf("sourcePackage(%s) = %q, %v, want %q", version, got, err, want)
		}
	}
}

func TestPrepareCustom(t *testing.T) {
	for driver, module := range map[string]string{"siw": "siw", "mlx5": "mlx5_core", "erdma": "erdma"} {
		d, err := FindDriver(driver)
		if err != nil {
			t.Fatalf("FindDriver: %v", err)
		}
		k := &Kernel{Release: "1.2.3", Modules: modules(t, "kernel/a.ko:\n"), custom: true}
		if err := d.Prepare(context.Background(), k, Sources{}); err == nil || !strings.Contains(err.Error(), "no module "+module) {
			t.Errorf("Prepare of a kernel without %s = %v, want an error", module, err)
		}
		k.Modules = modules(t, "kernel/"+module+".ko.xz:\n")
		if err := d.Prepare(context.Background(), k, Sources{}); err != nil || k.Extra != nil {
			t.Errorf("Prepare of a kernel with %s = %v, extra modules %v, want none", module, err, k.Extra)
		}
	}
}

// TestPrepareWithoutBuild checks that drivers that would have to be built are refused for a series
// without builds.
func TestPrepareWithoutBuild(t *testing.T) {
	series, err := Find("5.10", arch.AMD64)
	if err != nil {
		t.Fatalf("Find: %v", err)
	}
	for _, driver := range []string{"siw", "erdma"} {
		d, err := FindDriver(driver)
		if err != nil {
			t.Fatalf("FindDriver: %v", err)
		}
		k := &Kernel{Release: "1.2.3", Modules: modules(t, "kernel/a.ko:\n")}
		want := "Linux 5.10, so it has no driver " + driver
		if err := d.Prepare(context.Background(), k, Sources{Series: series}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Prepare of %s on 5.10 = %v, want an error with %q", driver, err, want)
		}
	}
}

// TestCardModules checks the selected files of a kernel's package, and the name of that
// package.
func TestCardModules(t *testing.T) {
	const dir = "usr/lib/modules/6.1.0/kernel/drivers/net/ethernet/mellanox/"
	mlx5 := card{"mlx5", "mellanox", []string{"mlxfw", "mlx5_core"}}
	for name, want := range map[string]bool{
		dir + "mlx5/core/mlx5_core.ko":                                       true,
		dir + "mlxfw/mlxfw.ko.xz":                                            true,
		dir + "mlx4/mlx4_core.ko":                                            false,
		dir + "mlx5/core/mlx5_core_x/y.ko":                                   false,
		"usr/lib/modules/6.1.0/kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko": false,
	} {
		if mlx5.selects(name) != want {
			t.Errorf("selects(%s) = %v, want %v", name, !want, want)
		}
	}
	for series, want := range map[string]string{"6.1": "linux-image-1.2.3", "7": "linux-modules-1.2.3"} {
		if s, err := Find(series, arch.AMD64); err != nil || s.modulesPackage("1.2.3") != want {
			t.Errorf("modulesPackage of series %s = %s, %v, want %s", series, s.modulesPackage("1.2.3"), err, want)
		}
	}
}

func TestMissing(t *testing.T) {
	look := func(absent ...string) func(string) (string, error) {
		return func(program string) (string, error) {
			for _, a := range absent {
				if a == program {
					return "", errors.New("not found")
				}
			}
			return "/usr/bin/" + program, nil
		}
	}
	if err := missing(look()); err != nil {
		t.Errorf("missing: %v", err)
	}
	if err := missing(look("gcc", "make")); err == nil || !strings.Contains(err.Error(), "apt-get install gcc make)") {
		t.Errorf("missing(gcc, make) = %v, want the packages", err)
	}
}

func TestBuildable(t *testing.T) {
	for _, dir := range []string{"/home/a b/.cache", "/tmp/a:b"} {
		if err := buildable(dir); err == nil || !strings.Contains(err.Error(), "RDMAVM_CACHE") {
			t.Errorf("buildable(%s) = %v, want an error about RDMAVM_CACHE", dir, err)
		}
	}
}

func TestRelocate(t *testing.T) {
	tr := &tree{dir: t.TempDir()}
	write(t, filepath.Join(tr.dir, "usr/src/linux-headers-1/Makefile"), "KBUILD_OUTPUT=/usr/src/h\ninclude /usr/src/c/Makefile\n")
	if err := tr.relocate("linux-headers-1"); err != nil {
		t.Fatalf("tr.relocate: %v", err)
	}
	b, _ := os.ReadFile(filepath.Join(tr.dir, "usr/src/linux-headers-1/Makefile"))
	if want := "KBUILD_OUTPUT=" + tr.dir + "/usr/src/h\ninclude " + tr.dir + "/usr/src/c/Makefile\n"; string(b) != want {
		t.Errorf("makefile = %q, want %q", b, want)
	}
}

// TestWrapTools uses a shell script as dynamic linker.
func TestWrapTools(t *testing.T) {
	tr := &tree{dir: t.TempDir()}
	kbuild := filepath.Join(tr.dir, "usr/lib/linux-kbuild-1")
	write(t, filepath.Join(tr.dir, library, "ld-linux-x86-64.so.2"), "#!/bin/sh\necho \"$@\"\n")
	write(t, filepath.Join(kbuild, "scripts/mod/modpost"), "\x7fELF...")
	write(t, filepath.Join(kbuild, "scripts/check"), "#!/bin/sh\n")
	write(t, filepath.Join(kbuild, "empty"), "")
	if err := tr.wrapTools(); err != nil {
		t.Fatalf("tr.wrapTools: %v", err)
	}
	modpost := filepath.Join(kbuild, "scripts/mod/modpost")
	got, err := tr.run(context.Background(), modpost, "-a", "b c")
	want := "--library-path " + filepath.Join(tr.dir, library) + " --argv0 " + modpost + " " + modpost + ".elf -a b c\n"
	if err != nil || got != want {
		t.Errorf("wrapped program printed %q, %v, want %q", got, err, want)
	}
	for _, name := range []string{"scripts/check.elf", "empty.elf"} {
		if _, err := os.Stat(filepath.Join(kbuild, name)); err == nil {
			t.Errorf("%s exists, want no wrapper", name)
		}
	}
}

// TestTreeRun checks that run does not pass on variables that change a makefile, and that an
// error contains the program's output.
func TestTreeRun(t *testing.T) {
	t.Setenv("MAKEFLAGS", "-n")
	t.Setenv("CC", "cc")
	tr := &tree{dir: t.TempDir()}
	if out, err := tr.run(context.Background(), "sh", "-c", "echo $MAKEFLAGS$CC"); out != "\n" || err != nil {
		t.Errorf("run = %q, %v, want an empty environment", out, err)
	}
	if _, err := tr.run(context.Background(), "sh", "-c", "echo x.c: error >&2; exit 2"); err == nil || !strings.Contains(err.Error(), "exit status 2:\nx.c: error") {
		t.Errorf("run of a failing program = %v, want its status and output", err)
	}
}

// TestExtract checks that only the directory of a module is unpacked, and that its absence is an
// error. A shell script replaces xz.
func TestExtract(t *testing.T) {
	programs := t.TempDir()
	write(t, filepath.Join(programs, "xz"), "#!/bin/sh\nexec cat \"$2\"\n")
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	var archive strings.Builder
	w := tar.NewWriter(&archive)
	for _, name := range []string{"linux-source-1/drivers/siw/Makefile", "linux-source-1/drivers/siw2/Makefile"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644}); err != nil {
			t.Fatalf("w.WriteHeader: %v", err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("w.Close: %v", err)
	}
	tr := &tree{dir: t.TempDir(), progress: io.Discard}
	write(t, filepath.Join(tr.dir, "usr/src/linux-source-1.tar.xz"), archive.String())
	if err := tr.extract(context.Background(), "linux-source-1", "drivers/siw"); err != nil {
		t.Errorf("tr.extract: %v", err)
	}
	if list, err := filepath.Glob(filepath.Join(tr.dir, "linux-source-1/drivers/*/*")); len(list) != 1 || filepath.Base(filepath.Dir(list[0])) != "siw" {
		t.Errorf("unpacked files = %q, %v, want only siw's", list, err)
	}
	if err := tr.extract(context.Background(), "linux-source-1", "drivers/erdma"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("tr.extract(drivers/erdma) = %v, want %v", err, fs.ErrNotExist)
	}
}

// write writes an executable file, and creates its directory.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatalf("os.MkdirAll: %v", err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
}

// modules creates a directory of modules with the given modules.dep.
func modules(t *testing.T, dep string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "modules.dep"), dep)
	write(t, filepath.Join(dir, "modules.builtin"), "kernel/virtio_pci.ko\n")
	return dir
}
