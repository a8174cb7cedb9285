// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"io"
	"io/fs"
	"net"
	"strconv"

	"golang.org/x/sys/unix"

	"purerdma/abi"
	"purerdma/internal/cdev"
	"purerdma/internal/leak"
	"purerdma/internal/mem"
)

// versionFile holds the version of the whole verbs interface.
const versionFile = "/sys/class/infiniband_verbs/abi_version"

// checkVersion returns an *ABIVersionError if this module does not support the version in a file.
// If the file is missing, as in a container without sysfs, it returns nil, and the commands
// themselves fail.
func checkVersion(file string) error {
	line := readLine(file)
	if line == "" {
		return nil
	}
	if v, err := strconv.ParseUint(line, 10, 32); err != nil || v != abi.IB_USER_VERBS_ABI_VERSION {
		return &ABIVersionError{Kernel: uint32(v), Known: abi.IB_USER_VERBS_ABI_VERSION}
	}
	return nil
}

// Open opens the character device. Its errors are the errors of open(2), as *fs.PathError, and an
// *ABIVersionError.
func (System) Open(info DeviceInfo) (Transport, error) {
	if err := checkVersion(versionFile); err != nil {
		return nil, err
	}
	for {
		fd, err := unix.Open(info.Node, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: info.Node, Err: err}
		}
		return &device{fd: fd, driver: info.DriverID, doorbell: cdev.CallsOf(info.DriverID).Doorbell, refs: newRefs(), leak: leak.Track("file", info.Node)}, nil
	}
}

// device is an open character device of the running kernel. It is not on the runtime poller,
// because a verbs device cannot be polled.
type device struct {
	fd       int
	driver   abi.DriverID
	doorbell cdev.Mode
	refs     *refs
	leak     *leak.Entry
}

func (d *device) Ioctl(req *Request) error {
	if !d.refs.enter() {
		return net.ErrClosed
	}
	defer d.refs.leave()
	return ioctlRequest(d.fd, d.driver, req)
}

// Write rings the doorbell of software devices, and arms their CQs. It is a raw system call. An
// ordinary one would wake the scheduler's monitor thread and make another thread take over. A round
// of messages with events would take more than twice as long.
func (d *device) Write(cmd []byte) error {
	if !d.refs.enter() {
		return net.ErrClosed
	}
	n, err := cdev.Write(uintptr(d.fd), cmd, d.doorbell)
	for err == unix.EINTR {
		n, err = cdev.Write(uintptr(d.fd), cmd, d.doorbell)
	}
	d.refs.leave()
	if err == nil && n != len(cmd) {
		return io.ErrShortWrite
	}
	return err
}

func (d *device) Mmap(offset int64, length int) ([]byte, error) {
	if !d.refs.enter() {
		return nil, net.ErrClosed
	}
	defer d.refs.leave()
	return mem.MapFile(d.fd, offset, length)
}

// MmapReadOnly implements ReadOnlyMapper.
func (d *device) MmapReadOnly(offset int64, length int) ([]byte, error) {
	if !d.refs.enter() {
		return nil, net.ErrClosed
	}
	defer d.refs.leave()
	return mem.MapFileReadOnly(d.fd, offset, length)
}

func (d *device) Replace(mapping []byte) error { return mem.Replace(mapping) }

func (d *device) Munmap(mapping []byte) error { return mem.Unmap(mapping) }

// MunmapPair needs one system call for mappings that are adjacent, as the two queues of a QP
// usually are. Each unmapping interrupts every processor that runs a thread of the process.
func (d *device) MunmapPair(a, b []byte) (bool, error) {
	both := mem.Join(a, b)
	if both == nil {
		return false, nil
	}
	return true, mem.Unmap(both)
}

func (d *device) Close() error {
	if !d.refs.close() {
		return nil
	}
	d.leak.Done()
	return unix.Close(d.fd)
}
