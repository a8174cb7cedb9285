// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"net"

	"purerdma/internal/cdev"
)

// eventFile is the descriptor of an event file as an attribute of a request.
type eventFile struct {
	id  uint16
	dev *cdev.File
}

type eventFiles []eventFile

func (l eventFiles) add(id uint16, c *AsyncChannel) eventFiles {
	if c == nil {
		return l
	}
	return append(l, eventFile{id, c.dev})
}

// createWith is create with event files, whose descriptors stay open meanwhile.
func (f *File) createWith(files eventFiles, object, method uint16, attrs []Attr) (uint32, error) {
	req := &Request{Object: object, Method: method, Attrs: attrs}
	if err := f.ioctlWith(files, req); err != nil {
		return 0, err
	}
	return uint32(req.Attrs[0].Value), nil
}

// ioctlWith is Ioctl with event files, whose descriptors stay open meanwhile.
func (f *File) ioctlWith(files eventFiles, req *Request) error {
	if len(files) == 0 {
		return f.Ioctl(req)
	}
	return f.ioctlWithSome(files, req)
}

func (f *File) ioctlWithSome(files eventFiles, req *Request) (err error) {
	cerr := files[0].dev.Control(func(n uintptr) {
		req.Attrs = append(req.Attrs, fd(files[0].id, n))
		err = f.ioctlWith(files[1:], req)
	})
	if cerr != nil {
		return net.ErrClosed
	}
	return err
}
