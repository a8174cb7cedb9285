// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uverbs

import (
	"net"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"purerdma/abi"
	"purerdma/internal/cdev"
)

// eventFD returns an eventfd that replaces an event file.
func eventFD(t *testing.T) *cdev.File {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatalf("unix.Eventfd: %v", err)
	}
	f, err := cdev.New(fd, "eventfd")
	if err != nil {
		t.Fatalf("cdev.New: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// number returns the descriptor of a file.
func number(t *testing.T, f *cdev.File) (n uint64) {
	t.Helper()
	if err := f.Control(func(fd uintptr) { n = uint64(fd) }); err != nil {
		t.Fatalf("File.Control: %v", err)
	}
	return n
}

// noting is a device that records the descriptors of a request and returns err.
type noting struct {
	Transport
	fds []Attr
	err error
}

func (n *noting) Ioctl(req *Request) error {
	n.fds = nil
	for _, a := range req.Attrs {
		if a.Kind == AttrFD {
			n.fds = append(n.fds, Attr{ID: a.ID, Value: a.Value})
		}
	}
	return n.err
}

// TestEventFiles checks that a request passes the descriptors of all its event files, and no
// descriptors of an earlier request. A request with a closed event file must not reach the
// kernel.
func TestEventFiles(t *testing.T) {
	k := new(noting)
	f := &File{t: k}
	comp, async := &CompChannel{f: f, dev: eventFD(t)}, &AsyncChannel{f: f, dev: eventFD(t)}
	closed := &CompChannel{f: f, dev: eventFD(t)}
	ofAsync := Attr{ID: abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD, Value: number(t, async.dev)}
	ofComp := Attr{ID: abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, Value: number(t, comp.dev)}
	closed.dev.Close()
	for range 3 { // requests are reused
		for _, tc := range []struct {
			cfg  CQConfig
			want []Attr
		}{
			{CQConfig{Events: async, Channel: comp}, []Attr{ofAsync, ofComp}},
			{CQConfig{Channel: comp}, []Attr{ofComp}},
			{CQConfig{Events: async}, []Attr{ofAsync}},
			{CQConfig{}, nil},
		} {
			for _, k.err = range []error{nil, syscall.EIO} {
				_, err := f.CreateCQ(tc.cfg, Driver{})
				if err != k.err || !slices.EqualFunc(k.fds, tc.want, func(a, b Attr) bool { return a.ID == b.ID && a.Value == b.Value }) {
					t.Errorf("CreateCQ(%+v): descriptors = %+v, error = %v, want %+v, %v", tc.cfg, k.fds, err, tc.want, k.err)
				}
			}
		}
		k.fds = nil
		if _, err := f.CreateCQ(CQConfig{Events: async, Channel: closed}, Driver{}); err != net.ErrClosed || k.fds != nil {
			t.Errorf("CreateCQ with a closed channel: descriptors = %+v, error = %v, want none, net.ErrClosed", k.fds, err)
		}
	}
	k.err = nil
	if _, err := f.CreateSRQ(SRQConfig{Events: async}, Driver{}); err != nil || len(k.fds) != 1 || k.fds[0].ID != abi.UVERBS_ATTR_CREATE_SRQ_EVENT_FD || k.fds[0].Value != ofAsync.Value {
		t.Errorf("CreateSRQ: descriptors = %+v, error = %v, want %+v, nil", k.fds, err, ofAsync)
	}
}

// TestEventFilesFree checks that a free request keeps no pointer to a file.
func TestEventFilesFree(t *testing.T) {
	f := &File{t: &noting{err: syscall.EIO}}
	p := newRequest(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE)
	p.file(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, eventFD(t))
	p.runOn(f)
	p.free()
	if p.files != [2]eventFile{} || p.f != nil || p.err != nil || p.num != 0 || p.open != 0 || p.next == nil {
		t.Errorf("request after free = %+v, want no files", p.withFiles)
	}
}
