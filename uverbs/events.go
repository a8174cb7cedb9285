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

// withFiles is the part of a request that passes event files. Their descriptors stay open during
// the request.
type withFiles struct {
	files [2]eventFile
	num   int // of files
	open  int // of those, how many have become attributes

	f    *File
	err  error
	next func(fd uintptr) // pooled.opened, made once
}

// events passes the file of a channel, if there is one.
func (p *pooled) events(id uint16, c *AsyncChannel) {
	if c != nil {
		p.file(id, c.dev)
	}
}

func (p *pooled) file(id uint16, dev *cdev.File) {
	p.files[p.num] = eventFile{id, dev}
	p.num++
}

// runOn is Ioctl of the file for a request that may pass event files.
func (p *pooled) runOn(f *File) error {
	if p.num == 0 {
		return f.Ioctl(&p.Request)
	}
	p.f = f
	return p.run()
}

// run opens the next event file, and sends the request to the kernel after the last.
func (p *pooled) run() error {
	if p.open == p.num {
		return p.f.Ioctl(&p.Request)
	}
	if p.files[p.open].dev.Control(p.next) != nil {
		return net.ErrClosed
	}
	return p.err
}

func (p *pooled) opened(n uintptr) {
	p.add(fd(p.files[p.open].id, n))
	p.open++
	p.err = p.run()
}

// createWith is create with the event file of a channel, if there is one.
func (f *File) createWith(id uint16, c *AsyncChannel, object, method uint16, attrs []Attr) (uint32, error) {
	req := newRequest(object, method)
	defer req.free()
	req.Attrs = append(req.Attrs, attrs...)
	req.events(id, c)
	if err := req.runOn(f); err != nil {
		return 0, err
	}
	return uint32(req.Attrs[0].Value), nil
}
