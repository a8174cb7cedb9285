// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/cache"
	"purerdma/test/microvm/kernel"
	"purerdma/test/microvm/qemu"
	"purerdma/test/microvm/wire"
)

// parts contains the parts of a virtual machine.
type parts struct {
	cache    *cache.Cache
	qemu     *qemu.QEMU
	accel    string
	driver   kernel.Driver
	hcas     *hcas // set if the driver's devices are modeled
	kernel   *kernel.Kernel
	image    string // initramfs with the modules
	modules  []string
	params   map[string]string // of modules, by name
	packages string            // directory of unpacked packages, or ""
	logs     string            // directory for kernel logs
}

// Prepare downloads and builds all requirements of a run with these options.
func Prepare(ctx context.Context, o *Options) error {
	_, err := prepare(ctx, o)
	return err
}

// Run runs the commands and returns the exit status of the first failed command, or 0. An error
// is a failure of rdmavm itself.
func Run(ctx context.Context, o *Options) (int, error) {
	if err := o.check(); err != nil {
		return Status, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sig := &relay{cancel: cancel}
	go sig.run(o.Signals)
	p, err := prepare(ctx, o)
	if err != nil {
		return Status, interrupted(ctx, err)
	}
	path, err := lockPath(os.Getuid(), p.cache.Path())
	if err != nil {
		return Status, err
	}
	unlock, err := lock(ctx, path, o.Stderr)
	if err != nil {
		return Status, err
	}
	defer unlock()
	dir, remove, err := tempDir()
	if err != nil {
		return Status, err
	}
	defer remove()
	if p.accel, err = p.findAccel(o, dir); err != nil {
		return Status, interrupted(ctx, err)
	}
	if p.driver.Model == nil {
		return o.runVMs(ctx, p, dir, sig)
	}
	var status int
	err = o.withHCAs(ctx, p.driver.Model, dir, func(h *hcas) (err error) {
		p.hcas = h
		status, err = o.runVMs(ctx, p, dir, sig)
		return err
	})
	if err != nil && status == 0 {
		status = Status
	}
	return status, err
}

// interrupted returns the cause of ctx's end, or else err.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// findAccel determines by a boot whether KVM works.
func (p *parts) findAccel(o *Options, dir string) (string, error) {
	return p.qemu.Accel(p.cache, p.kernel.Release, o.Stderr, func() (*qemu.Machine, error) { return p.testMachine(o, dir) })
}

// testMachine creates a machine whose guest boots and exits.
func (p *parts) testMachine(o *Options, dir string) (*qemu.Machine, error) {
	m := &qemu.Machine{
		Arch: o.Arch, Kernel: p.kernel.Image, Memory: 256, CPUs: o.CPUs,
		Initrd:  filepath.Join(dir, "initrd-test"),
		Console: filepath.Join(dir, "console-test"),
		Append:  "quiet",
	}
	return m, o.writeInitrd(m.Initrd, p.image, &wire.Config{}, "")
}

// tempDir creates the directory for the files of one run, and a lock on it. It removes the
// directories of killed runs of this user, whose locks are free.
func tempDir() (dir string, remove func(), err error) {
	uid := os.Getuid()
	prefix := fmt.Sprintf("rdmavm-%d-run-", uid)
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, d := range old {
		removeUnused(d, uid)
	}
	// The directory gets its name after the lock, so that no other run finds it without one.
	made, err := os.MkdirTemp("", fmt.Sprintf("rdmavm-%d-new-", uid))
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(filepath.Dir(made), strings.Replace(filepath.Base(made), "-new-", "-run-", 1))
	f, err := lockDir(made)
	if err == nil {
		err = os.Rename(made, dir)
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(made))
	}
	return dir, func() {
		os.RemoveAll(dir)
		f.Close()
	}, nil
}

// removeUnused removes a directory of the user if no run uses it.
func removeUnused(dir string, uid int) {
	st, err := os.Lstat(dir)
	if err != nil || !st.IsDir() || owner(st) != uid {
		return
	}
	if f, err := lockDir(dir); err == nil {
		os.RemoveAll(dir)
		f.Close()
	}
}

// lockDir locks a directory. It fails with EWOULDBLOCK if another process has the lock. The lock
// ends with Close, or with the process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// runVMs runs the one or two virtual machines.
func (o *Options) runVMs(ctx context.Context, p *parts, dir string, sig *relay) (int, error) {
	n := 1
	if o.VMs {
		n = o.Hosts
	}
	vms := make([]*vm, n)
	status := make([]int, n)
	errs := make([]error, n)
	for i := range vms {
		v, err := o.boot(ctx, p, dir, i)
		if err != nil {
			for _, v := range vms[:i] {
				v.proc.Kill()
			}
			return Status, err
		}
		if n > 1 {
			v.prefix(fmt.Sprintf("[%d] ", i))
		}
		vms[i] = v
	}
	sig.attach(vms)
	var wg sync.WaitGroup
	for i, v := range vms {
		wg.Go(func() { status[i], errs[i] = v.run() })
	}
	wg.Wait()
	for i := range vms {
		if errs[i] != nil {
			return status[i], errs[i]
		}
	}
	for _, s := range status {
		if s != 0 {
			return s, nil
		}
	}
	return 0, nil
}

// base lists packages that replace the machine's programs in a guest of another architecture.
var base = []string{"bash", "coreutils", "dash", "iproute2"}

// prepare gets all parts from the cache or from their sources.
func prepare(ctx context.Context, o *Options) (*parts, error) {
	series, err := kernel.Find(o.Kernel, o.Arch)
	if err != nil {
		return nil, err
	}
	driver, err := kernel.FindDriver(o.Driver)
	if err != nil {
		return nil, err
	}
	c, err := cache.Open(o.Stderr)
	if err != nil {
		return nil, err
	}
	p := &parts{cache: c, driver: driver, logs: c.Path("log")}
	if err := os.MkdirAll(p.logs, 0o755); err != nil {
		return nil, err
	}
	if p.qemu, err = qemu.Get(ctx, c, o.Arch, driver.Model != nil, o.Refresh, o.Stderr); err != nil {
		return nil, err
	}
	src := kernel.Sources{Cache: c, Series: series, Arch: o.Arch, Refresh: o.Refresh, Progress: o.Stderr}
	if image := os.Getenv("RDMAVM_KERNEL"); image != "" {
		p.kernel, err = kernel.Custom(image, os.Getenv("RDMAVM_MODULES"))
	} else {
		p.kernel, err = kernel.Get(ctx, src)
		if err == nil && !strings.Contains(o.Kernel, ".") {
			// The name does not identify the exact kernel, which changes over time.
			fmt.Fprintf(o.Stderr, "rdmavm: Linux %s is %s\n", o.Kernel, p.kernel.Release)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := driver.Prepare(ctx, p.kernel, src); err != nil {
		return nil, err
	}
	names := slices.Concat(kernel.Transport, kernel.RDMA(driver))
	p.params = map[string]string{}
	for _, m := range o.Modules {
		name, params, _ := strings.Cut(m, " ")
		names = append(names, name)
		if params != "" {
			p.params[kernel.ModuleName(name)] = params
		}
	}
	paths, err := p.kernel.Paths(names)
	if err != nil {
		return nil, err
	}
	for name := range p.params {
		if !slices.ContainsFunc(paths, func(path string) bool { return kernel.ModuleName(path) == name }) {
			return nil, fmt.Errorf("%s is built into the kernel: give its parameters with -append %s.NAME=VALUE", name, name)
		}
	}
	if p.image, err = moduleImage(c, p.kernel, paths); err != nil {
		return nil, fmt.Errorf("create the image of modules: %w", err)
	}
	for _, m := range paths {
		p.modules = append(p.modules, kernel.Plain(m))
	}
	if !o.Arch.Native() {
		o.Packages = slices.Concat(o.Packages, base)
	}
	if len(o.Packages) > 0 {
		if p.packages, err = getPackages(ctx, c, o); err != nil {
			return nil, err
		}
	}
	return p, nil
}
