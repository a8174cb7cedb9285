// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"errors"
	"fmt"
	"unsafe"

	"purerdma/abi"
	"purerdma/uverbs"
)

// doorbellPage is the size of a page of registers, on all hosts.
const doorbellPage = 4096

// Distances of registers, and the parts of a number that select the register.
const (
	sendDoorbell  = 128
	sendDoorbells = 32
	recvDoorbell  = 32
	recvDoorbells = 128
	cqDoorbell    = 8
	cqDoorbells   = doorbellPage / cqDoorbell

	// An entry has two doorbells of send queues.
	sendEntry = 2 * sendDoorbell
)

// Kinds of a context's doorbells of send queues (sdb_type). Linux 6.1 assigned a page to a context, an
// entry of a page, or a page that all contexts share. Newer kernels report sdbPage.
const (
	sdbPage = iota
	sdbEntry
	sdbShared
)

// doorbells are the three pages of registers of a context.
type doorbells struct {
	mappings         []*uverbs.Mapping
	send, recv, comp unsafe.Pointer
	entry            int // offset of the only doorbell of send queues, or -1
}

// open maps the pages.
func (d *doorbells) open(f *uverbs.File, r *abi.ErdmaUrespAllocCtx) error {
	d.entry = -1
	switch r.SDBType {
	case sdbPage, sdbShared:
	case sdbEntry:
		if r.SDBOffset >= doorbellPage/sendEntry {
			return unsupported("entry %d of a page of doorbells", r.SDBOffset)
		}
		d.entry = int(r.SDBOffset) * sendEntry
	default:
		return unsupported("doorbells of kind %d", r.SDBType)
	}
	for _, p := range []struct {
		base   *unsafe.Pointer
		offset uint64
	}{{&d.send, r.SDB}, {&d.recv, r.RDB}, {&d.comp, r.CDB}} {
		if int64(p.offset) < 0 {
			return unsupported("a page of doorbells at %#x", p.offset)
		}
		m, err := f.Mmap(int64(p.offset), doorbellPage)
		if err != nil {
			return fmt.Errorf("map doorbells: %w", err)
		}
		d.mappings = append(d.mappings, m)
		*p.base = unsafe.Pointer(unsafe.SliceData(m.Bytes()))
	}
	return nil
}

func (d *doorbells) close() error {
	var errs []error
	for _, m := range d.mappings {
		errs = append(errs, m.Close())
	}
	d.mappings = nil
	return errors.Join(errs...)
}

// sendOf returns the register of a QP's send queue.
func (d *doorbells) sendOf(qp uint32) unsafe.Pointer {
	if d.entry >= 0 {
		return unsafe.Add(d.send, d.entry)
	}
	return unsafe.Add(d.send, qp%sendDoorbells*sendDoorbell)
}

// recvOf returns the register of a QP's receive queue.
func (d *doorbells) recvOf(qp uint32) unsafe.Pointer {
	return unsafe.Add(d.recv, qp%recvDoorbells*recvDoorbell)
}

// compOf returns the register of a CQ.
func (d *doorbells) compOf(cq uint32) unsafe.Pointer {
	return unsafe.Add(d.comp, cq%cqDoorbells*cqDoorbell)
}
