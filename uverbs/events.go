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
func (f *File) createWith(files eventFiles, object, method uint16, attrs []Attr) (h uint32, err error) {
	if len(files) == 0 {
		return f.create(object, method, attrs...)
	}
	cerr := files[0].dev.Control(func(n uintptr) {
		h, err = f.createWith(files[1:], object, method, append(attrs, fd(files[0].id, n)))
	})
	if cerr != nil {
		return 0, net.ErrClosed
	}
	return h, err
}
