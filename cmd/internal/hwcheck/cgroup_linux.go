// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"purerdma/verbs"
)

// groupChecks limit the process by a control group. They need root.
var groupChecks = []Check{
	{ID: "cgroup-limit", Local: true, Destructive: true, Title: "objects beyond the limits of a control group (rdma.max)", needs: needsGroups, do: checkGroupLimit},
}

func needsGroups(t *trial) string {
	if reason := needsKernel(t); reason != "" {
		return reason
	}
	if os.Geteuid() != 0 {
		return "needs root"
	}
	return ""
}

// group is a control group (version 2) for this process.
type group struct {
	dir    string
	former string // where the process was
}

// groupRoot returns the directory of the hierarchy of control groups. If there is none, it is mounted until the end of the check.
func (t *trial) groupRoot() string {
	info, err := os.ReadFile("/proc/self/mountinfo")
	t.must("read the mounts", err)
	for l := range strings.Lines(string(info)) {
		before, after, _ := strings.Cut(l, " - ")
		if fields := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 && fields[3] == "/" {
			return fields[4]
		}
	}
	dir, err := os.MkdirTemp("", "rdmahw-*")
	t.must("make a directory", err)
	t.later(func() error { return os.Remove(dir) })
	if err := unix.Mount("none", dir, "cgroup2", 0, ""); err != nil {
		t.skip("there are no control groups of version 2: %v", err)
	}
	t.later(func() error { return unix.Unmount(dir, 0) })
	return dir
}

// joinGroup moves this process into a new group until the end of the check.
func (t *trial) joinGroup() *group {
	root := t.groupRoot()
	if controllers := strings.Fields(line(root, "cgroup.controllers")); !slices.Contains(controllers, "rdma") {
		t.skip("the controller rdma is not available for control groups of version 2, only %q", controllers)
	}
	control := filepath.Join(root, "cgroup.subtree_control")
	if !slices.Contains(strings.Fields(line(control)), "rdma") {
		t.must("enable the controller rdma", os.WriteFile(control, []byte("+rdma"), 0))
		t.later(func() error { return os.WriteFile(control, []byte("-rdma"), 0) })
	}
	path, _ := strings.CutPrefix(lineWith(line("/proc/self/cgroup"), "0::"), "0::")
	g := &group{dir: filepath.Join(root, "rdmahw-"+strconv.Itoa(os.Getpid())), former: filepath.Join(root, path)}
	t.must("make a control group", os.Mkdir(g.dir, 0o755))
	t.later(func() error { return os.Remove(g.dir) })
	t.must("join the control group", enter(g.dir))
	t.later(func() error { return enter(g.former) })
	return g
}

// enter moves this process into a group.
func enter(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// limit limits the contexts and the objects of the device for the group.
func (g *group) limit(device, handles, objects string) error {
	return os.WriteFile(filepath.Join(g.dir, "rdma.max"), fmt.Appendf(nil, "%s hca_handle=%s hca_object=%s", device, handles, objects), 0)
}

// used returns the numbers of contexts and objects that the kernel charges to the group for the device.
func (g *group) used(device string) (handles, objects int) {
	b, err := os.ReadFile(filepath.Join(g.dir, "rdma.current"))
	if err != nil {
		return -1, -1
	}
	return charged(string(b), device)
}

// charged parses rdma.current. A device without a line has no charges.
func charged(text, device string) (handles, objects int) {
	fields := strings.Fields(lineWith(text, device+" "))
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			continue
		}
		switch name {
		case "hca_handle":
			handles = n
		case "hca_object":
			objects = n
		}
	}
	return handles, objects
}

func checkGroupLimit(t *trial) {
	g := t.joinGroup()
	// The device of the check was opened before, so another user of the device opens it.
	host := func() *verbs.Host { return &verbs.Host{Drivers: t.target.Host.Drivers, Log: t.target.Host.Log} }
	opened, err := host().Open(t.target.Device)
	t.must("open the device", err)
	t.later(opened.Close)
	l := t.link(Config{}) // its objects count
	name := t.target.Device
	handles, objects := g.used(name)
	t.note("a context and a connection with both ends here: %d contexts and %d objects", handles, objects)
	if handles <= 0 || objects <= 0 {
		t.fail("the kernel charges %d contexts and %d objects to the group of a process with a connection", handles, objects)
	}
	const room = 5
	t.must("limit the group", g.limit(name, strconv.Itoa(handles), strconv.Itoa(objects+room)))
	made, err := l.pdsUntilRefused(2 * room)
	t.note("limit of %d more objects: %d PDs, then %v", room, made, err)
	if made != room {
		t.fail("%d PDs with a limit of %d objects, want %d: %v", made, objects+room, room, err)
	}
	t.wantLimit("PD", err)
	dev, err := host().Open(name)
	t.note("limit of %d contexts: another one: %v", handles, err)
	if err == nil {
		dev.Close()
		t.fail("the device was opened once more with a limit of %d contexts", handles)
	}
	t.wantLimit("context", err)
	l.send(l.write(piece{0, 64}, 0)) // everything else still works
	t.must("remove the limits", g.limit(name, "max", "max"))
	if h, o := g.used(name); h != handles || o != objects {
		t.fail("%d contexts and %d objects are charged after the refusals, want %d and %d", h, o, handles, objects)
	}
	if made, err := l.pdsUntilRefused(2 * room); err != nil {
		t.fail("%d PDs without a limit, then %v", made, err)
	}
}

// pdsUntilRefused allocates up to n PDs, and closes them. It returns their number, and the error of the refused PD.
func (l *link) pdsUntilRefused(n int) (made int, err error) {
	for ; made < n; made++ {
		pd, err := l.dev.AllocPD()
		if err != nil {
			return made, err
		}
		defer pd.Close()
	}
	return made, nil
}

// wantLimit ends the check unless an error reports a limit (EAGAIN of rdmacg_try_charge) in an operation of the library.
func (t *trial) wantLimit(what string, err error) {
	if op, ok := errors.AsType[*verbs.OpError](err); !ok || !errors.Is(err, syscall.EAGAIN) {
		t.fail("%s beyond the limit: %v (%T), want an OpError with EAGAIN", what, err, op)
	}
}
