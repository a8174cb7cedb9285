// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"syscall"
	"time"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// ServiceRecord describes a service in the records of an InfiniBand fabric's subnet
// administrator (struct ib_user_service_rec, rdma/ib_user_sa.h; IBTA specification, volume 1,
// 15.2.5.14).
type ServiceRecord struct {
	ID    uint64
	GID   verbs.GID // of the port that offers it
	PKey  uint16
	Lease time.Duration // validity of the record, without limit at the largest value
	Key   [16]byte
	Name  string
	Data  [64]byte // the service's own: 16 bytes, then 8 words of 16 bits, 4 of 32, 2 of 64
}

// ResolveIBService looks an InfiniBand service up by its ID (rdma_resolve_addrinfo(3) with
// RAI_SA). The ID must be bound to a port of an InfiniBand fabric. The outcome is
// EventAddrInfoResolved or EventAddrInfoError. Linux 7.3 has the command, and 6.12 does not.
// The error wraps errors.ErrUnsupported if the kernel or the port does not support it.
func (id *ID) ResolveIBService(service uint64) error {
	return id.resolveService(abi.UcmIBService{ServiceID: service, Flags: abi.RDMA_USER_CM_IB_SERVICE_FLAG_ID})
}

// ResolveIBServiceName is ResolveIBService by the name of the service, of at most 63 bytes.
func (id *ID) ResolveIBServiceName(name string) error {
	service := abi.UcmIBService{Flags: abi.RDMA_USER_CM_IB_SERVICE_FLAG_NAME}
	if limit := len(service.ServiceName) - 1; len(name) > limit {
		return id.opError(opService, &ArgumentError{Name: "the length of the service name", Value: len(name), Max: limit, Reason: "the record has room for no more"})
	}
	copy(service.ServiceName[:], name)
	return id.resolveService(service)
}

func (id *ID) resolveService(service abi.UcmIBService) error {
	return id.run(opService, to(StateServiceQuery), func(f *ucma.File, kid uint32) error {
		return f.ResolveIBService(kid, service)
	})
}

// QueryIBService returns the records that were found (rdma_query_addrinfo(3)), at most 372.
func (id *ID) QueryIBService() ([]ServiceRecord, error) {
	var records []ServiceRecord
	err := id.run(opQuery, nil, func(f *ucma.File, kid uint32) error {
		recs, err := f.QueryIBService(kid)
		for i := range recs {
			records = append(records, serviceFromKernel(&recs[i]))
		}
		return err
	})
	return records, err
}

// Addr returns the address of the service, to connect to in PortSpaceIB.
func (r *ServiceRecord) Addr() Addr {
	return Addr{IB: IBAddr{PKey: r.PKey, GID: r.GID, ServiceID: r.ID, ServiceIDMask: ^uint64(0)}}
}

func serviceFromKernel(k *abi.IBUserServiceRec) ServiceRecord {
	name, _, _ := bytes.Cut(k.Name[:], []byte{0})
	r := ServiceRecord{
		ID:    binary.BigEndian.Uint64(k.ID[:]),
		GID:   k.GID,
		PKey:  binary.BigEndian.Uint16(k.PKey[:]),
		Lease: time.Duration(binary.BigEndian.Uint32(k.Lease[:])) * time.Second,
		Key:   k.Key,
		Name:  string(name),
	}
	data := append(r.Data[:0], k.Data8[:]...)
	for _, w := range k.Data16 {
		data = append(data, w[:]...)
	}
	for _, w := range k.Data32 {
		data = append(data, w[:]...)
	}
	for _, w := range k.Data64 {
		data = append(data, w[:]...)
	}
	return r
}

// WriteEvent queues an event for the ID itself (rdma_write_cm_event(3)). It can wake a
// goroutine that waits on the ID's channel. typ is EventUser, or EventInternal in a library
// that separates its events from the program's. The event carries status and arg. Linux 7.3
// has the command, and 6.12 does not. The error wraps errors.ErrUnsupported if the kernel does
// not support it.
func (id *ID) WriteEvent(typ EventType, status int32, arg uint64) error {
	if typ != EventUser && typ != EventInternal {
		return id.opError(opWriteEvent, fmt.Errorf("%v, want %v or %v, which the kernel does not send itself: %w", typ, EventUser, EventInternal, syscall.EINVAL))
	}
	return id.run(opWriteEvent, nil, func(f *ucma.File, kid uint32) error {
		return f.WriteCMEvent(kid, uint32(typ), status, arg)
	})
}
