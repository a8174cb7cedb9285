// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package guest implements rdmavm as /init in the virtual machine. It mounts file systems,
// loads modules, creates the network and its RDMA devices, runs the program, and reports its
// end.
package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/wire"
)

// helper is the path of this program in the guest's root. The kernel runs it under this name to
// load a module.
const helper = runDir + "/modprobe"

// runDir is the directory of rdmavm below /run in the guest's root.
const runDir = "/run/rdmavm"

// isHelper reports whether this process is the module loader, started by the kernel or by a
// program.
func isHelper() bool {
	exe, err := os.Executable()
	return err == nil && exe == helper
}

// Main runs as a virtual machine's init or module loader. It returns if this process is
// neither.
func Main() {
	switch {
	case os.Getpid() == 1 && exists(wire.ConfigPath):
		initMain()
	case isHelper():
		os.Exit(modprobeMain(os.Args[1:], os.Stderr))
	}
}

// initMain never returns, because the kernel panics when init ends.
func initMain() {
	g := &guest{}
	if err := g.run(); err != nil {
		g.fail(err)
	}
	if g.selfTest {
		leave()
	}
	g.conn.Send(wire.Done, nil)
	<-g.bye // wait until the host has read everything
	leave()
}

// A guest is the state of the virtual machine's init.
type guest struct {
	cfg      wire.Config
	selfTest bool
	modules  *modules
	conn     *wire.Conn
	ends     []end
	kmsg     *kmsg
	env      []string // environment of every command

	stdin  stdin
	faults *faults
	bye    chan struct{}
}

// run runs the guest to its end.
func (g *guest) run() error {
	if err := mountKernel(); err != nil {
		return err
	}
	b, err := os.ReadFile(wire.ConfigPath)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &g.cfg); err != nil {
		return fmt.Errorf("%s: %w", wire.ConfigPath, err)
	}
	if len(g.cfg.Commands) == 0 {
		g.selfTest = true // the boot was the test
		return nil
	}
	if err := startProcessors(processors); err != nil {
		return err
	}
	g.modules = &modules{dir: "/modules", params: g.cfg.Params}
	if err := g.modules.loadAll(g.cfg.Modules); err != nil {
		return err
	}
	if err := g.connect(); err != nil {
		return err
	}
	g.note("modules loaded")
	if err := g.makeRoot(); err != nil {
		return err
	}
	g.note("root mounted")
	if g.ends, err = makeNetwork(&g.cfg); err != nil {
		return err
	}
	g.note("RDMA devices made")
	if err := unlockMemory(); err != nil {
		return err
	}
	g.setEnv()
	if g.cfg.PCI {
		if err := g.faults.serve(); err != nil {
			return err
		}
		g.env = append(g.env, "RDMAVM_FAULTS="+faultSocket)
	}
	for i, c := range g.cfg.Commands {
		if err := g.command(i, c); err != nil {
			return err
		}
	}
	unix.Sync()
	g.kmsg.drain()
	return nil
}

// unlockMemory removes the limit on locked memory, as a server's system administrator does. siw of
// Linux 6.1 also applies the limit to root.
func unlockMemory() error {
	none := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &none); err != nil {
		return fmt.Errorf("remove the limit on locked memory: %w", err)
	}
	return nil
}

// setEnv sets the variables that describe the environment to a program.
func (g *guest) setEnv() {
	var hosts []string
	for _, e := range g.ends {
		hosts = append(hosts, e.String())
	}
	g.env = []string{
		"RDMAVM=1",
		"RDMAVM_KERNEL_RELEASE=" + release(),
		"RDMAVM_DRIVER=" + g.cfg.Driver,
		"RDMAVM_HOSTS=" + strings.Join(hosts, " "),
	}
	if g.cfg.VMs > 1 {
		g.env = append(g.env, fmt.Sprintf("RDMAVM_HOST=%d", g.cfg.Host))
	}
}

// note reports the progress of the boot.
func (g *guest) note(text string) {
	up, _ := os.ReadFile("/proc/uptime")
	sec, _, _ := strings.Cut(string(up), " ")
	g.conn.Send(wire.Note, []byte(text+" at "+sec+" s"))
}

// fail reports a failure of the guest, on the console if there is no other way yet. It ends the
// VM without the orderly exit.
func (g *guest) fail(err error) {
	fmt.Fprintln(os.Stderr, "rdmavm guest:", err)
	if g.conn != nil {
		if g.kmsg != nil {
			g.kmsg.drain()
		}
		g.conn.Send(wire.Failed, []byte(err.Error()))
		select {
		case <-g.bye:
		case <-time.After(5 * time.Second):
		}
	}
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {}
}

// leave ends the VM orderly.
func leave() {
	debugExit()
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {}
}

// connect opens the channel to the host and starts to read from it.
func (g *guest) connect() error {
	port, err := openPort(wire.PortName)
	if err != nil {
		return err
	}
	g.conn = wire.NewConn(port)
	g.bye = make(chan struct{})
	g.stdin.init(g.conn)
	g.faults = &faults{conn: g.conn, answers: make(chan string, 1)}
	if g.kmsg, err = startKmsg(g.conn); err != nil {
		return err
	}
	go g.listen()
	return nil
}

// openPort opens the virtio-serial port with a name. Its number depends on the other devices,
// and the file appears shortly after the module is loaded.
func openPort(name string) (*os.File, error) {
	deadline := time.Now().Add(10 * time.Second)
	for {
		ports, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, p := range ports {
			if b, err := os.ReadFile(p); err == nil && strings.TrimSpace(string(b)) == name {
				return openConnected("/dev/"+filepath.Base(filepath.Dir(p)), deadline)
			}
		}
		if time.Now().After(deadline) {
			return nil, errors.New("no virtio-serial port " + name)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// openConnected opens a port when the host is connected. Before that, reads would return end of
// file. The file uses the poller, because a blocking write would spin in the kernel until the
// host has read the data.
func openConnected(path string, deadline time.Time) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	for {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if _, err := unix.Poll(p, 0); err == nil && p[0].Revents&unix.POLLHUP == 0 {
			return os.NewFile(uintptr(fd), path), nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("open %s: the host is not connected", path)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// release returns the kernel's release, as in uname -r.
func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
