// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/wire"
)

// newRoot is the directory in which makeRoot creates the programs' root.
const newRoot = "/root"

// mountKernel mounts the kernel's own file systems.
func mountKernel() error {
	err := errors.Join(
		mount("proc", "/proc", "proc", unix.MS_NOSUID, ""),
		mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID, ""),
		mount("devtmpfs", "/dev", "devtmpfs", 0, ""),
		mount("devpts", "/dev/pts", "devpts", unix.MS_NOEXEC, "mode=620,ptmxmode=666"),
		mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NODEV, "mode=1777"),
	)
	// The kernel creates the devices. Init must create these links.
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if lerr := os.Symlink(target, "/dev/"+name); !errors.Is(lerr, fs.ErrExist) {
			err = errors.Join(err, lerr)
		}
	}
	return err
}

// makeRoot creates the programs' root and makes it the root of this process, and of the
// programs that the kernel starts to load modules.
func (g *guest) makeRoot() error {
	var err error
	if len(g.cfg.Layers) > 0 {
		err = g.overlayRoot()
	} else {
		err = mount("tmpfs", newRoot, "tmpfs", 0, "mode=755")
	}
	if err == nil && g.cfg.Root == wire.RootNone {
		err = g.addProgram()
	}
	if err != nil {
		return fmt.Errorf("create the root: %w", err)
	}
	for _, d := range []string{"/proc", "/sys", "/dev"} {
		if err := mount(d, newRoot+d, "", unix.MS_MOVE, ""); err != nil {
			return err
		}
	}
	if err := mount("tmpfs", newRoot+"/run", "tmpfs", unix.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	if err := g.keepHelper(); err != nil {
		return err
	}
	for _, s := range g.cfg.Shares {
		if err := mount9p(s.Tag, filepath.Join(newRoot, s.Path), "cache=mmap"); err != nil {
			return err
		}
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	if err := os.WriteFile("/proc/sys/kernel/modprobe", []byte(helper), 0); err != nil {
		return err
	}
	g.modules.dir = runDir + "/modules"
	return unix.Sethostname(fmt.Appendf(nil, "rdmavm%d", g.cfg.Host))
}

// overlayRoot stacks the host's directories below a tmpfs. The guest can read them, and its
// changes stay in the tmpfs.
func (g *guest) overlayRoot() error {
	if err := mount("tmpfs", "/upper", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	var lower []string
	for i, tag := range g.cfg.Layers {
		dir := fmt.Sprintf("/lower%d", i)
		if err := mount9p(tag, dir, "ro,cache=loose"); err != nil {
			return err
		}
		lower = append(lower, dir)
	}
	if err := errors.Join(os.Mkdir("/upper/up", 0o755), os.Mkdir("/upper/work", 0o755)); err != nil {
		return err
	}
	return mount("root", newRoot, "overlay", 0, "upperdir=/upper/up,workdir=/upper/work,lowerdir="+strings.Join(lower, ":"))
}

// addProgram adds the program to an empty root, or to a root that contains only packages.
// Packages expect the links of a system with a merged /usr.
func (g *guest) addProgram() error {
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		if len(g.cfg.Layers) > 0 && exists(filepath.Join(newRoot, "usr", d)) && !exists(filepath.Join(newRoot, d)) {
			if err := os.Symlink("usr/"+d, filepath.Join(newRoot, d)); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(newRoot+"/tmp", 0o755); err != nil {
		return err
	}
	if err := os.Chmod(newRoot+"/tmp", 0o777|os.ModeSticky); err != nil {
		return err
	}
	for _, c := range g.cfg.Commands {
		if err := os.MkdirAll(filepath.Join(newRoot, c.Dir), 0o755); err != nil {
			return err
		}
	}
	if g.cfg.Program == "" {
		return nil // the program is in one of the packages
	}
	dst := filepath.Join(newRoot, g.cfg.Program)
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	return bindFile("/program", dst)
}

// keepHelper makes this program and the modules visible in the new root, because the kernel
// runs it to load modules.
func (g *guest) keepHelper() error {
	if err := os.MkdirAll(newRoot+runDir, 0o755); err != nil {
		return err
	}
	if err := bindFile("/init", newRoot+helper); err != nil {
		return err
	}
	dir := newRoot + runDir + "/modules"
	if err := mount9p(g.cfg.Kernel, dir, "ro,cache=loose"); err != nil {
		return err
	}
	if g.cfg.Root == wire.RootNone {
		return nil
	}
	if sbin := newRoot + "/usr/sbin"; exists(sbin) && !exists(sbin+"/modprobe") && !exists(newRoot+"/sbin/modprobe") {
		if err := os.Symlink(helper, sbin+"/modprobe"); err != nil {
			return err
		}
	}
	if lib := filepath.Join(newRoot, "/usr/lib"); exists(lib) {
		return mount(dir, filepath.Join(lib, "modules", release()), "", unix.MS_BIND, "")
	}
	return nil
}

// mount creates the target directory and mounts source there.
func mount(source, target, fstype string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		return fmt.Errorf("mount %s (%s) on %s: %w", source, fstype, target, err)
	}
	return nil
}

// mount9p mounts a directory of the host.
func mount9p(tag, target, options string) error {
	var flags uintptr
	if o, ok := strings.CutPrefix(options, "ro,"); ok {
		flags, options = unix.MS_RDONLY, o
	}
	return mount(tag, target, "9p", flags, "trans=virtio,version=9p2000.L,msize=512000,"+options)
}

// bindFile makes the file src appear as dst.
func bindFile(src, dst string) error {
	f, err := os.OpenFile(dst, os.O_CREATE, 0o755)
	if err != nil {
		return err
	}
	f.Close()
	if err := unix.Mount(src, dst, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", src, dst, err)
	}
	return nil
}
